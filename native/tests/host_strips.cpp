// Compares what the host's codecs for newer CPUs make with what those for any CPU do: blocks,
// damaged blocks, and checksums. Prints which of them this CPU could run.
//
//   host_strips ROUNDS SEED

#include "compress/host_strips.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "compress/strips.hpp"

namespace lanescope::compress {

namespace {

using Random = std::mt19937_64;

struct alignas(64) Block {
  std::byte bytes[kBlockBytes];
};

void require(bool holds, const char* what, const char* name, const StripKind& kind) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s (codec %d, type %d, dimensionality %d)\n", name, what,
               static_cast<int>(kind.codec), static_cast<int>(kind.dtype), kind.dimensionality);
  std::exit(1);
}

/// A walk of steps of many sizes from values some places back, with a part of them as random bits;
/// or sums of such a walk, once or twice. Zeros lie among them, or not.
template <typename Word>
void walk(Random& random, std::byte* out, std::size_t bytes) {
  std::vector<Word> values(bytes / sizeof(Word));
  const std::size_t back = 1 + random() % 33;
  const unsigned narrow = random() % 64, rare = 1 + random() % 300;
  const Word sign = random() % 2 ? Word(Word{1} << (8 * sizeof(Word) - 1)) : Word{0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Word before = i < back ? Word(random() >> 7) : values[i - back];
    const Word step = static_cast<Word>(random() >> narrow >> random() % 8);
    values[i] = static_cast<Word>((random() % 2 ? before + step : before - step) ^
                                  (random() % 2 ? sign : Word{0}));
    if (random() % rare == 0) values[i] = static_cast<Word>(random());
  }
  for (std::size_t times = random() % 3; times > 0; --times)
    for (std::size_t i = back; i < values.size(); ++i)
      values[i] = static_cast<Word>(values[i] + values[i - back]);
  const std::size_t zeros = random() % 4;
  for (Word& value : values)
    if (random() % 4 < zeros) value = 0;
  std::memcpy(out, values.data(), values.size() * sizeof(Word));
}

/// Integers over a power of ten, with square roots of them among them (NaN too), or none.
template <typename Float>
void decimals(Random& random, std::byte* out, std::size_t bytes) {
  std::vector<Float> values(bytes / sizeof(Float));
  const double scale = std::pow(10.0, static_cast<int>(random() % 25) - 6);
  const auto span = static_cast<std::int64_t>(1 + (random() >> (11 + random() % 50)));
  const unsigned rare = 1 + random() % 300;
  for (Float& value : values) {
    const auto integer = static_cast<std::int64_t>(random() >> 1) % span - span / 3;
    value = static_cast<Float>(static_cast<double>(integer) / scale);
    if (rare < 200 && random() % (10 * rare) == 0) value = std::sqrt(value);
  }
  std::memcpy(out, values.data(), values.size() * sizeof(Float));
}

void fill(Random& random, std::byte* out, std::size_t bytes, std::size_t value_bytes) {
  if (value_bytes == 4 && random() % 2) return decimals<float>(random, out, bytes);
  if (value_bytes == 8 && random() % 2) return decimals<double>(random, out, bytes);
  if (value_bytes == 1) return walk<std::uint8_t>(random, out, bytes);
  if (value_bytes == 2) return walk<std::uint16_t>(random, out, bytes);
  if (value_bytes == 4) return walk<std::uint32_t>(random, out, bytes);
  walk<std::uint64_t>(random, out, bytes);
}

/// One block by two kinds of code.
void compare(Random& random, const StripKind& kind, const HostStrips& plain,
             const HostStrips& other) {
  const std::size_t value_bytes = bytes_of(kind.dtype);
  const std::size_t whole = random() % 3 == 0 ? kBlockBytes : 1 + random() % kBlockBytes;
  const std::size_t bytes = std::max(whole / value_bytes, std::size_t{1}) * value_bytes;
  static Block in, out[2];
  fill(random, in.bytes, bytes, value_bytes);
  require(plain.checksum(in.bytes, whole, whole) == other.checksum(in.bytes, whole, whole),
          "another checksum", other.name, kind);

  std::vector<std::byte> coded(kMostPayloadBytes), same(kMostPayloadBytes, std::byte{0xA5});
  coded.resize(plain.encode(kind, in.bytes, bytes, coded.data()));
  same.resize(other.encode(kind, in.bytes, bytes, same.data()));
  require(coded == same, "other coded bytes", other.name, kind);

  for (int damages = 0; damages < 4; ++damages) {
    bool good[2];
    for (int which = 0; which < 2; ++which) {
      std::memset(out[which].bytes, 0, bytes);
      good[which] = (which == 0 ? plain : other)
                        .decode(kind, coded.data(), coded.size(), out[which].bytes, bytes);
    }
    require(good[0] == good[1], "other blocks are refused", other.name, kind);
    require(!good[0] || std::memcmp(out[0].bytes, out[1].bytes, bytes) == 0, "other values",
            other.name, kind);
    if (damages == 0)
      require(good[0] && std::memcmp(in.bytes, out[0].bytes, bytes) == 0, "not what was coded",
              other.name, kind);
    coded[random() % 2 ? random() % coded.size() : random() % 40 % coded.size()] ^=
        static_cast<std::byte>(1U << random() % 8);
  }
}

std::vector<StripKind> all_kinds() {
  std::vector<StripKind> all;
  for (const auto& codec : compression::kCodecs)
    for (const auto& type : compression::kDtypes)
      if (with_strip(codec.codec, type.dtype, []<typename Strip>(Strip) {}))
        all.push_back({codec.codec, type.dtype, 1});
  return all;
}

}  // namespace
}  // namespace lanescope::compress

int main(int, char** arguments) {
  using namespace lanescope::compress;
  Random random(std::strtoull(arguments[2], nullptr, 10));
  const auto possible = possible_host_strips();
  for (long round = std::atol(arguments[1]); round > 0; --round)
    for (StripKind kind : all_kinds()) {
      kind.dimensionality = 1 + static_cast<int>(random() % 32);
      for (const HostStrips* other : possible) compare(random, kind, *possible[0], *other);
    }
  for (const HostStrips* one : possible) std::printf("%s\n", one->name);
}
