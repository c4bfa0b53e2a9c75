#include "watch/bit_sum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lanescope::watch {

namespace {

using modular::kPrime;
using modular::Number;
using modular::Wide;

static_assert(std::endian::native == std::endian::little);

// From its first bit to its last: at any bit of a byte it lies within 8 bytes.
constexpr std::size_t kWidest = 48;
constexpr std::size_t kFewestBits = 4;  // a field costs more than a byte in a table

/// Whether a bit counts what it does in a field that begins with another one, or its negative.
bool continues(std::span<const Number> numbers, std::size_t begin, std::size_t bit) noexcept {
  if (bit - begin >= kWidest) return false;
  const Number expected = modular::times(numbers[begin], Number{1} << (bit - begin));
  return numbers[bit] == expected || numbers[bit] == kPrime - expected;
}

}  // namespace

BitSum::BitSum(std::span<const Number> numbers, std::span<const std::uint8_t> first) {
  std::vector<Number> loose(numbers.size());
  std::vector<std::size_t> run;
  const auto end_run = [&] {
    if (!add_field(run, numbers, first))
      for (const std::size_t bit : run) loose[bit] = numbers[bit];
    run.clear();
  };
  for (std::size_t bit = 0; bit < numbers.size(); ++bit) {
    if (numbers[bit] == 0) continue;
    if (!run.empty() && !continues(numbers, run.front(), bit)) end_run();
    run.push_back(bit);
  }
  end_run();
  for (std::size_t byte = 0; byte < first.size(); ++byte)
    add_table(byte, std::span(loose).subspan(8 * byte, 8), first[byte]);
}

bool BitSum::add_field(std::span<const std::size_t> run, std::span<const Number> numbers,
                       std::span<const std::uint8_t> first) {
  if (run.size() < kFewestBits) return false;
  const std::size_t byte = run.front() / 8;
  Field field{byte, 0, 0, static_cast<unsigned>(run.front() % 8), numbers[run.front()]};
  for (const std::size_t bit : run) {
    const std::uint64_t mask = std::uint64_t{1} << (bit - 8 * byte);
    field.mask |= mask;
    bool inverted = (first[bit / 8] >> (bit % 8) & 1) != 0;
    if (numbers[bit] != modular::times(field.factor, Number{1} << (bit - run.front()))) {
      // Its negative for a bit that differs is its negative always, and itself for one that doesn't
      inverted = !inverted;
      constant_ = modular::plus(constant_, numbers[bit]);
    }
    if (inverted) field.inverted |= mask;
  }
  fields_.push_back(field);
  return true;
}

void BitSum::add_table(std::size_t byte, std::span<const Number> numbers, std::uint8_t first) {
  if (std::all_of(numbers.begin(), numbers.end(), [](Number n) { return n == 0; })) return;
  std::array<Number, 256> sums{};
  for (std::size_t bit = 0; bit < 8; ++bit)
    for (std::size_t less = 0, size = std::size_t{1} << bit; less < size; ++less)
      sums[size + less] = modular::plus(sums[less], numbers[bit]);
  Table& table = tables_.emplace_back(Table{byte, {}});
  for (std::size_t value = 0; value < sums.size(); ++value) table.adds[value] = sums[value ^ first];
}

Number BitSum::operator()(const std::uint8_t* sample) const noexcept {
  Wide sum = constant_;
  for (const Field& field : fields_) {
    std::uint64_t word;
    std::memcpy(&word, sample + field.byte, sizeof word);
    sum += Wide{((word ^ field.inverted) & field.mask) >> field.shift} * field.factor;
  }
  for (const Table& table : tables_) sum += table.adds[sample[table.byte]];
  return modular::reduced(sum);
}

}  // namespace lanescope::watch
