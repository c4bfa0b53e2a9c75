#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lanescope::watch {

/// Samples that were worked on at once, and how long that took.
struct SampleWork {
  std::uint64_t samples = 0;
  std::chrono::nanoseconds took{0};
};

/// What work on samples costs: so much each time, and so much for each sample.
///
/// Small pieces of work tell the one, large ones the other. Of the last pieces the middle one
/// counts, of few a quick one: one that was held up says nothing, nor does the first, which takes
/// longer than all that follow.
class SamplingCost {
 public:
  static constexpr std::size_t kFewest = 4;        ///< Pieces that tell the cost,
  static constexpr std::size_t kFewestOfLong = 3;  ///< or so many that took long together.
  static constexpr std::chrono::milliseconds kLong{200};

  /// Takes a piece of work; one without samples says nothing.
  void add(const SampleWork& work) noexcept;

  /// Whether enough is known since the last new beginning.
  bool known() const noexcept {
    return pieces_ >= kFewest || (pieces_ >= kFewestOfLong && took_ >= kLong);
  }

  double whole_ns() const noexcept { return whole_ns_; }    ///< A sample, all in all.
  double sample_ns() const noexcept { return sample_ns_; }  ///< What one more sample takes.
  double fixed_ns() const noexcept { return fixed_ns_.value_or(0); }

  /// Forgets what samples cost: what comes may cost less. What each time costs is kept.
  void begin_again() noexcept;

 private:
  static constexpr std::size_t kLast = 8;  // pieces that count

  std::size_t size() const noexcept { return pieces_ < kLast ? pieces_ : kLast; }
  double median_ns(double fixed_ns, std::uint64_t fewest) const noexcept;

  std::array<SampleWork, kLast> last_{};
  std::size_t pieces_ = 0;            // since the last new beginning
  std::chrono::nanoseconds took_{0};  // all of them
  double whole_ns_ = 0, sample_ns_ = 0;
  std::optional<double> fixed_ns_;
};

}  // namespace lanescope::watch
