// What programs that throw data and damage at the codecs share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace lanescope::compress {
namespace {

/// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0xD1342543DE82EF95U + 1) {}

  std::uint64_t bits() {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }
  /// 0 to `end` - 1.
  std::uint32_t below(std::uint32_t end) {
    return static_cast<std::uint32_t>(((bits() >> 32) * end) >> 32);
  }
  bool once_in(std::uint32_t times) { return below(times) == 0; }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Numbers of bits are equally likely, so that small numbers are not rare.
  std::uint64_t of_any_size() { return bits() >> below(64); }

 private:
  std::uint64_t state_;
};

/// Heap memory of just so many values.
template <typename T>
struct Exact {
  explicit Exact(std::size_t count) : data(new T[count]), size(count) {}
  Exact(const T* from, std::size_t count) : Exact(count) {
    if (count > 0) std::memcpy(data.get(), from, count * sizeof(T));
  }
  T* begin() { return data.get(); }
  T* end() { return data.get() + size; }

  std::unique_ptr<T[]> data;
  std::size_t size;
};

}  // namespace
}  // namespace lanescope::compress
