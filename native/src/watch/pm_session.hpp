#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "watch/counter_image.hpp"
#include "watch/cupti_api.hpp"
#include "watch/pm_metrics.hpp"
#include "watch/sample_formula.hpp"

namespace lanescope::watch {

/// What is sampled, and how often.
struct PmSettings {
  static constexpr std::uint64_t kLongestIntervalNs = 50'000'000;  ///< 2^32 bytes take 67 ms

  int device;                         ///< CUDA's number of the GPU.
  std::uint64_t interval_ns;          ///< Between two samples, 1 us to 50 ms.
  std::vector<std::string> metrics;   ///< Of each link two: bytes received and sent by the GPU.
  std::size_t hardware_buffer_bytes;  ///< Of host memory; a sample takes 64 bytes or more.
};

/// What one decoding has found.
enum class Decoded {
  all,       ///< All there was.
  full,      ///< The image is full, and there may be more.
  overflow,  ///< The hardware's buffer ran over: sampling is to be begun anew.
};

/// PM sampling of one GPU, made ready: it needs no context of CUDA, and the driver keeps it
/// for this process alone until the session ends.
class PmSession {
 public:
  /// Takes the better part of a second. Throws `Error` with CUPTI's name: of a GPU without such
  /// metrics, of another profiler that holds it, of missing privileges.
  PmSession(std::shared_ptr<const CuptiApi> api, PmSettings settings);

  /// Begins or ends sampling. Throws `Error`.
  void start();
  void stop();

  /// Gives the GPU back and takes it again, to sample every `interval_ns`, which ends whatever
  /// state it was in; sampling is stopped then, and images are to be made anew. Takes half a
  /// second. Throws `Error`.
  void reopen(std::uint64_t interval_ns);

  /// Room for so many samples; see `CounterImage`. Throws `Error`.
  CounterImage make_image(std::size_t samples, bool reusable = true);

  /// Makes an image empty. Throws `Error`.
  void clear(CounterImage& image) const;

  /// How many samples an image holds that are complete. Throws `Error`.
  std::size_t samples(const CounterImage& image) const { return info(image).numCompletedSamples; }

  /// Fetches into an image what the hardware has written since the last call. Throws `Error`.
  Decoded decode(CounterImage& image) const;

  /// When a sample began and ended (CLOCK_REALTIME, ns), and its values, one for each metric.
  using Take = std::function<void(std::uint64_t, std::uint64_t, std::span<const double>)>;

  using Clock = std::chrono::steady_clock;

  /// Hands over samples of an image, in order of time: from the one numbered `begin` on, until the
  /// end or a time. Throws `Error`.
  /// @return the number of the sample behind the last one; none where that was the image's last.
  std::optional<std::size_t> evaluate(const CounterImage& image, std::size_t begin,
                                      Clock::time_point until, const Take& take);

  /// How often a sample's values differed from what had been learned; see `SampleFormula`.
  std::uint64_t contradictions() const noexcept { return formula_->contradictions(); }

  /// Of how many samples CUPTI was asked for the values.
  std::uint64_t asked() const noexcept { return asked_; }

  /// What `evaluate` has spent so far on samples that taught something, CUPTI's part included.
  std::chrono::nanoseconds learning() const noexcept { return learning_; }

  FormulaReport formula() const { return formula_->report(); }

  const PmSettings& settings() const noexcept { return settings_; }

 private:
  void choose_metrics();
  void require_support() const;
  std::vector<std::uint8_t> availability() const;
  void enable();
  std::size_t image_bytes(std::size_t samples);
  void learn_layout();
  CUpti_PmSampling_GetCounterDataInfo_Params info(const CounterImage& image) const;

  std::shared_ptr<const CuptiApi> api_;
  PmSettings settings_;
  std::optional<PmMetrics> metrics_;                   // outlives object_, which looks at it
  std::shared_ptr<CUpti_PmSampling_Object> object_;    // gives the GPU back
  std::size_t before_samples_ = 0, sample_bytes_ = 0;  // in an image; 0 where that is not known
  std::optional<SampleFormula> formula_;
  std::uint64_t asked_ = 0;
  std::chrono::nanoseconds learning_{0};
};

}  // namespace lanescope::watch
