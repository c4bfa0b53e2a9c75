#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace lanescope::compression {

/// The newest few observations of something that now and then is held up by something else, and
/// may change for good. What is off counts for nothing but itself, as the one in the middle is
/// taken; two in a row that are off in the same direction begin anew, or three where many are.
template <typename Observation>
class Newest {
 public:
  /// `times`: how many times as large as expected it is. Whether this began anew.
  bool take(const Observation& newest, double times) {
    const double size = std::max(times, 1 / times) - 1;
    const bool off = size > std::max(kOff, kOffSpreads * spread_), larger = times > 1;
    unlike_ = size <= std::max(kUnlike, kUnlikeSpreads * spread_) ? 0
              : larger                                            ? std::max(unlike_, 0) + 1
                                                                  : std::min(unlike_, 0) - 1;
    if (!off || larger != larger_) stalls_ += ((off_in_row_ > 0 ? 1 : 0) - stalls_) / kRemembered;
    off_in_row_ = !off ? 0 : larger == larger_ ? off_in_row_ + 1 : 1;
    larger_ = larger;
    if (!off) spread_ += (size - spread_) / kRemembered;
    all_[next_] = newest;
    next_ = (next_ + 1) % kMost;
    count_ = std::min(count_ + 1, kMost);
    const std::size_t needed = stalls_ > kManyStalls ? 3 : 2;
    if (off_in_row_ < needed) return false;
    begin_with_newest(off_in_row_);
    return true;
  }

  void begin_anew(const Observation& only) {
    all_[next_] = only;
    next_ = (next_ + 1) % kMost;
    begin_with_newest(1);
  }

  std::size_t count() const { return count_; }

  /// How many in a row have been larger than expected, or smaller (below zero), by more than they
  /// vary.
  int unlike() const { return unlike_; }

  /// The observation in the middle by a value; the lower one of an even number, as what holds up
  /// makes times longer alone. There is one at least.
  template <typename Value>
  Observation middle(Value value) const {
    std::array<std::pair<double, std::size_t>, kMost> by;
    for (std::size_t back = 0; back < count_; ++back) {
      const std::size_t at = (next_ + kMost - 1 - back) % kMost;
      by[back] = {value(all_[at]), at};
    }
    const std::size_t at = (count_ - 1) / 2;
    std::nth_element(by.begin(), by.begin() + at, by.begin() + count_);
    return all_[by[at].second];
  }

 private:
  static constexpr std::size_t kMost = 5;
  static constexpr double kOff = 0.5, kUnlike = 0.1;  // that something is larger or smaller
  static constexpr double kOffSpreads = 5, kUnlikeSpreads = 4;  // in mean differences
  static constexpr double kRemembered = 64, kManyStalls = 0.02;

  void begin_with_newest(std::size_t count) {
    count_ = count;
    off_in_row_ = 0;
    unlike_ = 0;
  }

  std::array<Observation, kMost> all_{};
  std::size_t count_ = 0, next_ = 0, off_in_row_ = 0;
  int unlike_ = 0;
  bool larger_ = false;
  double spread_ = 0.02, stalls_ = 0;  // means: of differences, of those that are off alone
};

}  // namespace lanescope::compression
