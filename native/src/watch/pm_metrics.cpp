#include "watch/pm_metrics.hpp"

#include <utility>

#include "error.hpp"

namespace lanescope::watch {

PmMetrics::PmMetrics(std::shared_ptr<const CuptiApi> api, const std::string& chip,
                     std::vector<std::uint8_t> available, std::vector<std::string> names)
    : api_(std::move(api)), available_(std::move(available)), texts_(std::move(names)) {
  for (const std::string& text : texts_) names_.push_back(text.c_str());
  auto host = LANESCOPE_CUPTI_PARAMETERS(CUpti_Profiler_Host_Initialize_Params);
  host.profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING;
  host.pChipName = chip.c_str();
  host.pCounterAvailabilityImage = available_.data();
  (*api_)(api_->host_initialize, host);
  host_ = {host.pHostObject, [api = api_](CUpti_Profiler_Host_Object* object) {
             auto ended = LANESCOPE_CUPTI_PARAMETERS(CUpti_Profiler_Host_Deinitialize_Params);
             ended.pHostObject = object;
             api->host_deinitialize.attempt(ended);
           }};
  configure();
}

void PmMetrics::configure() {
  auto metrics = LANESCOPE_CUPTI_PARAMETERS(CUpti_Profiler_Host_ConfigAddMetrics_Params);
  metrics.pHostObject = host_.get();
  metrics.ppMetricNames = names_.data();
  metrics.numMetrics = names_.size();
  // CUPTI has no word of its own for it: "unknown" or "invalid parameter" is what it says.
  if (const CUptiResult result = api_->add_metrics.attempt(metrics); result != CUPTI_SUCCESS)
    throw Error(api_->add_metrics.name(), result, "no such metrics", "the GPU does not count them");
  auto size = LANESCOPE_CUPTI_PARAMETERS(CUpti_Profiler_Host_GetConfigImageSize_Params);
  size.pHostObject = host_.get();
  (*api_)(api_->config_size, size);
  config_.resize(size.configImageSize);
  auto image = LANESCOPE_CUPTI_PARAMETERS(CUpti_Profiler_Host_GetConfigImage_Params);
  image.pHostObject = host_.get();
  image.configImageSize = config_.size();
  image.pConfigImage = config_.data();
  (*api_)(api_->config_image, image);
}

CUpti_Profiler_Host_EvaluateToGpuValues_Params PmMetrics::question(const CounterImage& image,
                                                                   double* values) noexcept {
  auto parameters = LANESCOPE_CUPTI_PARAMETERS(CUpti_Profiler_Host_EvaluateToGpuValues_Params);
  parameters.pHostObject = host_.get();
  parameters.pCounterDataImage = image.data();
  parameters.counterDataImageSize = image.size();
  parameters.ppMetricNames = names_.data();
  parameters.numMetrics = names_.size();
  parameters.pMetricValues = values;
  return parameters;
}

}  // namespace lanescope::watch
