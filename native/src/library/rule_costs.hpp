#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lanescope/compression.hpp"
#include "library/robust.hpp"

namespace lanescope::compression {

// What transfers take, as it is and compressed, in slabs that overlap. With B bytes in slabs of S
// bytes, a link of L bytes a second that takes a seconds besides, codecs of C and D bytes a second
// that take t0 seconds to be started, and the ratio r:
//
//   T_raw = a + B/L
//   T_z = a + t0 + min(S, B) (1/C + 1/D) + max(B/C, B/(r L), B/D)
//
// The second is never too short: the link's part of the first slab is counted twice where the link
// is not the slowest.

/// Compressing shall save so much at least that a small error does not make it a loss.
inline constexpr double kMargin = 0.95;
/// Decisions from one trial to the next.
inline constexpr int kEvery = 64;
/// The same, at first after a loss, which may be an accident.
inline constexpr int kFirstPatience = 8;

/// A codec that takes so many times as long for each byte.
CodecCost slower(CodecCost codec, double times);

/// T_raw of so many bytes.
double raw_seconds(double bytes, const LinkCost& link);

/// T_z of so many bytes; the ratio is infinite where nothing crosses the link.
double compressed_seconds(double bytes, double ratio, const CodecCost& codec, const LinkCost& link);

/// How many times as slow as `codec` one is by which T_z is `seconds`; 0 or more. One transfer
/// cannot tell C from D, so both are taken to be off by the same factor.
double slowness_of(double bytes, double ratio, const CodecCost& codec, const LinkCost& link,
                   double seconds);

/// From how many bytes on T_z < `margin` T_raw; none: never. The difference of both is above zero
/// for no bytes and consists of two straight lines, the second not steeper than the first, so that
/// it crosses zero once at most.
std::optional<std::uint64_t> break_even(double ratio, const CodecCost& codec, const LinkCost& link,
                                        double margin);

/// Sizes of one class are within a factor of two.
int size_class(std::size_t bytes);

/// What transfers as they are take: by path and size class, the middle of the newest few.
class RawTimes {
 public:
  /// What a path costs before anything has crossed it.
  void set_link(const std::string& path, const LinkCost& link) { given_[path] = link; }

  /// Whether it took another time than expected, by more than times vary.
  bool take(const std::string& path, std::size_t bytes, double seconds);

  /// As measured twice in the size's class, else by the link that was given. None where neither is
  /// known; times of other classes say too little of this one.
  std::optional<double> seconds(const std::string& path, std::size_t bytes) const;

  /// The link that leads to `seconds` of such a size.
  std::optional<LinkCost> link(const std::string& path, std::size_t bytes) const;

 private:
  struct Timed {
    double bytes, seconds;
  };
  using Known = std::map<int, Timed>;

  Known known(const std::string& path) const;
  double first_seconds(const std::string& path) const;

  std::map<std::string, std::map<int, Newest<Timed>>> timed_;
  std::map<std::string, LinkCost> given_;
};

}  // namespace lanescope::compression
