#include "compress/update.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "compress/checksum.hpp"
#include "compress/host_codec.hpp"
#include "compress/host_strips.hpp"
#include "error.hpp"
#include "host/parallel.hpp"

namespace lanescope::compress {

namespace {

constexpr std::size_t kLeastSummed = 16;  // blocks a thread

template <typename Combine>
void combine(std::span<const std::byte> one, const std::byte* base, std::byte* out,
             Combine combine_words) {
  const std::size_t whole = one.size() / 8 * 8;
  std::uint64_t word, other;
  for (std::size_t at = 0; at < whole; at += 8) {
    std::memcpy(&word, one.data() + at, 8);
    std::memcpy(&other, base + at, 8);
    word = combine_words(word, other);
    std::memcpy(out + at, &word, 8);
  }
  const std::size_t rest = one.size() - whole;
  if (rest == 0) return;
  word = other = 0;
  std::memcpy(&word, one.data() + whole, rest);
  std::memcpy(&other, base + whole, rest);
  word = combine_words(word, other);
  std::memcpy(out + whole, &word, rest);
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error("decompress", 0, "bad base", what);
}

std::string hex_of(std::uint64_t sum) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum));
  return digits;
}

}  // namespace

std::uint64_t sum_on_host(std::span<const std::byte> array, int threads) {
  const HostStrips& strips = host_strips();
  std::atomic<std::uint64_t> sum = checksum_begin(array.size());
  in_parallel(
      blocks_of(array.size()), kLeastSummed,
      [&](std::size_t first, std::size_t last) {
        const std::size_t begin = first * kBlockBytes;
        const std::size_t end = std::min(last * kBlockBytes, array.size());
        if (begin < end) sum += strips.sum(array.data() + begin, end - begin, begin / 8);
      },
      static_cast<std::size_t>(std::max(threads, 0)));
  return sum;
}

void take_differences(const Differing& differing, std::span<const std::byte> values,
                      const std::byte* base, std::byte* out) {
  combine(values, base, out, [=](auto word, auto other) { return differing.take(word, other); });
}

void put_differences(const Differing& differing, std::span<const std::byte> differences,
                     const std::byte* base, std::byte* out) {
  combine(differences, base, out,
          [=](auto word, auto other) { return differing.put(word, other); });
}

void require_base_of(std::size_t bytes, const Base& base) {
  if (base && base->size() == bytes) return;
  throw Error("compress", 0, "bad base",
              base ? "the base has " + std::to_string(base->size()) + " bytes, and the array has " +
                         std::to_string(bytes) + "; give a base of the same type and shape"
                   : "an update needs its base; give the array that the other side has");
}

void require_base(const Layout& layout, const Base& base, std::span<const std::byte> out) {
  if (layout.header.difference() == UpdateKind::none) {
    if (base) refuse("the stream holds the whole array and needs no base; leave the base out");
    return;
  }
  if (!base)
    refuse("the stream is an update of a base with the checksum " + hex_of(layout.base) +
           ", and none is given; give that array as the base");
  if (base->size() != layout.header.bytes)
    refuse("the base has " + std::to_string(base->size()) + " bytes, and the stream is an update " +
           "of one with " + std::to_string(layout.header.bytes) +
           "; give the array that it was made against");
  if (out.data() != base->data() && overlap(out, *base))
    refuse(
        "the memory for the array overlaps a part of the base; give the base itself, or other "
        "memory");
}

void require_sum(const Layout& layout, std::uint64_t sum) {
  if (sum == layout.base) return;
  refuse("the base is another one: its checksum is " + hex_of(sum) +
         ", and the stream is an update of one with " + hex_of(layout.base) +
         "; give the array that it was made against");
}

}  // namespace lanescope::compress
