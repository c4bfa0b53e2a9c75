#pragma once

#include <cstdint>

#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Fields of one width, up to 32 bits: a row has one for each of 32 lanes. The fields of a lane
/// follow each other without gaps, from the lowest bit of words of 32 bits on; word p of all lanes
/// lies in a row of 128 bytes. So lanes do alike, and none looks at another.
struct FieldRows {
  static constexpr std::uint32_t kRowBytes = 4 * kLanes;

  std::uint32_t width;

  LANESCOPE_LANES std::uint32_t bytes(std::uint32_t rows) const {
    return parts_of(rows * width, 32) * kRowBytes;
  }

  /// The fields of a row; `in` has those of all rows.
  template <typename Warp>
  LANESCOPE_LANES typename Warp::template Lanes<std::uint32_t> load(Warp warp,
                                                                    const std::uint8_t* in,
                                                                    std::uint32_t row) const {
    typename Warp::template Lanes<std::uint32_t> fields;
    if (width == 0) {
      warp.each([&](int lane) { fields[lane] = 0; });
      return fields;
    }
    const std::uint32_t shift = row * width % 32, mask = ~std::uint32_t{0} >> (32 - width);
    const std::uint8_t* first = in + row * width / 32 * kRowBytes;
    // Where a field does not reach into another word, that word's bits lie beyond the mask.
    const std::uint8_t* second = shift + width > 32 ? first + kRowBytes : first;
    warp.each([&](int lane) {
      const std::uint32_t low = load_word(first + 4 * lane), high = load_word(second + 4 * lane);
      fields[lane] = (low >> shift | high << (31 - shift) << 1) & mask;
    });
    return fields;
  }

  /// Stores rows one after another.
  template <typename Warp>
  class Writer {
   public:
    LANESCOPE_LANES Writer(std::uint32_t width, std::uint8_t* out) : width_(width), out_(out) {}

    LANESCOPE_LANES void put(Warp warp, const typename Warp::template Lanes<std::uint32_t>& row) {
      if (width_ == 0) return;
      if (filled_ == 0)
        word_ = row;
      else
        warp.each([&](int lane) { word_[lane] |= row[lane] << filled_; });
      filled_ += width_;
      if (filled_ < 32) return;
      flush(warp);
      filled_ -= 32;
      const std::uint32_t stored = width_ - filled_;
      if (filled_ > 0) warp.each([&](int lane) { word_[lane] = row[lane] >> stored; });
    }

    LANESCOPE_LANES void finish(Warp warp) {
      if (filled_ > 0) flush(warp);
    }

   private:
    LANESCOPE_LANES void flush(Warp warp) {
      warp.store_some(out_, word_, 0, kLanes);
      out_ += kRowBytes;
    }

    typename Warp::template Lanes<std::uint32_t> word_;
    std::uint32_t width_, filled_ = 0;
    std::uint8_t* out_;
  };
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
