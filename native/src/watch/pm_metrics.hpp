#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "watch/counter_image.hpp"
#include "watch/cupti_api.hpp"

namespace lanescope::watch {

/// Which metrics of a chip are sampled, and how their values are had from an image.
class PmMetrics {
 public:
  /// `available`: what the GPU can count, as CUPTI tells it. Throws `Error`, named
  /// "no such metrics" where the chip lacks one of `names`.
  PmMetrics(std::shared_ptr<const CuptiApi> api, const std::string& chip,
            std::vector<std::uint8_t> available, std::vector<std::string> names);
  PmMetrics(const PmMetrics&) = delete;
  PmMetrics& operator=(const PmMetrics&) = delete;

  /// How the hardware is to be set up; CUPTI looks at it for as long as it samples.
  const std::vector<std::uint8_t>& config() const noexcept { return config_; }

  const char** names() noexcept { return names_.data(); }
  std::size_t count() const noexcept { return names_.size(); }

  /// Ready to be asked, sample by sample (`rangeIndex`), for as many `values` as metrics.
  CUpti_Profiler_Host_EvaluateToGpuValues_Params question(const CounterImage& image,
                                                          double* values) noexcept;

 private:
  void configure();

  std::shared_ptr<const CuptiApi> api_;
  std::vector<std::uint8_t> available_;
  std::vector<std::string> texts_;
  std::vector<const char*> names_;  // of texts_
  std::vector<std::uint8_t> config_;
  std::shared_ptr<CUpti_Profiler_Host_Object> host_;
};

}  // namespace lanescope::watch
