#include "watch/pm_session.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "error.hpp"

namespace lanescope::watch {

namespace {

constexpr std::size_t kMostMetrics = 4;
// Samples from look to look at the clock, each up to 8 us, and behind each that taught something.
constexpr std::size_t kLookEach = 256;
// Behind the samples that CUPTI tells of: one may be begun and not complete.
constexpr std::size_t kMargin = 16;

}  // namespace

PmSession::PmSession(std::shared_ptr<const CuptiApi> api, PmSettings settings)
    : api_(std::move(api)), settings_(std::move(settings)) {
  const std::size_t metrics = settings_.metrics.size();
  if (metrics == 0 || metrics % 2 != 0 || metrics > kMostMetrics || settings_.interval_ns == 0 ||
      settings_.interval_ns > PmSettings::kLongestIntervalNs)
    throw Error("PmSession", 0, "bad settings",
                "two metrics for each of at most two links, and an interval of up to 50 ms");
  {
    // In two threads at once CUPTI took the names of chips for invalid.
    static std::mutex one_by_one;
    const std::lock_guard lock(one_by_one);
    choose_metrics();
  }
  enable();
  learn_layout();
}

void PmSession::choose_metrics() {
  auto begin = LANESCOPE_CUPTI_PARAMETERS(CUpti_Profiler_Initialize_Params);
  (*api_)(api_->initialize, begin);
  require_support();
  auto chip = LANESCOPE_CUPTI_PARAMETERS(CUpti_Device_GetChipName_Params);
  chip.deviceIndex = static_cast<std::size_t>(settings_.device);
  (*api_)(api_->chip_name, chip);
  metrics_.emplace(api_, chip.pChipName, availability(), settings_.metrics);
}

void PmSession::require_support() const {
  auto parameters = LANESCOPE_CUPTI_PARAMETERS(CUpti_Profiler_DeviceSupported_Params);
  parameters.cuDevice = settings_.device;
  parameters.api = CUPTI_PROFILER_PM_SAMPLING;
  // One that fails tells nothing: what cannot be done is said by the calls that come.
  if (api_->device_supported.attempt(parameters) != CUPTI_SUCCESS) return;
  if (parameters.architecture == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    throw Error(api_->device_supported.name(), CUPTI_ERROR_NOT_SUPPORTED, "no PM sampling",
                "the GPU's architecture has no PM sampling");
  if (parameters.confidentialCompute == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    api_->check(CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED, api_->device_supported.name());
  if (parameters.vGpu == CUPTI_PROFILER_CONFIGURATION_DISABLED ||
      parameters.vGpu == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    api_->check(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, api_->device_supported.name());
}

std::vector<std::uint8_t> PmSession::availability() const {
  auto parameters = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_GetCounterAvailability_Params);
  parameters.deviceIndex = static_cast<std::size_t>(settings_.device);
  (*api_)(api_->availability, parameters);
  std::vector<std::uint8_t> image(parameters.counterAvailabilityImageSize);
  parameters.pCounterAvailabilityImage = image.data();
  (*api_)(api_->availability, parameters);
  return image;
}

void PmSession::enable() {
  auto enabled = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_Enable_Params);
  enabled.deviceIndex = static_cast<std::size_t>(settings_.device);
  (*api_)(api_->enable, enabled);
  object_ = {enabled.pPmSamplingObject, [api = api_](CUpti_PmSampling_Object* object) {
               auto disabled = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_Disable_Params);
               disabled.pPmSamplingObject = object;
               api->disable.attempt(disabled);
             }};
  auto set = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_SetConfig_Params);
  set.pPmSamplingObject = object_.get();
  set.configSize = metrics_->config().size();
  set.pConfig = metrics_->config().data();
  set.hardwareBufferSize = settings_.hardware_buffer_bytes;
  set.samplingInterval = settings_.interval_ns;
  set.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
  set.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST;
  (*api_)(api_->set_config, set);
}

void PmSession::start() {
  auto started = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_Start_Params);
  started.pPmSamplingObject = object_.get();
  (*api_)(api_->start, started);
}

void PmSession::stop() {
  auto stopped = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_Stop_Params);
  stopped.pPmSamplingObject = object_.get();
  (*api_)(api_->stop, stopped);
}

void PmSession::reopen(std::uint64_t interval_ns) {
  auto stopped = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_Stop_Params);
  stopped.pPmSamplingObject = object_.get();
  api_->stop.attempt(stopped);  // it may be in any state
  object_.reset();
  settings_.interval_ns = interval_ns;
  formula_->doubt();
  enable();
}

std::size_t PmSession::image_bytes(std::size_t samples) {
  auto size = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_GetCounterDataSize_Params);
  size.pPmSamplingObject = object_.get();
  size.pMetricNames = metrics_->names();
  size.numMetrics = metrics_->count();
  size.maxSamples = static_cast<std::uint32_t>(samples);
  (*api_)(api_->image_size, size);
  return size.counterDataSize;
}

void PmSession::learn_layout() {
  // Samples lie one after the other where each adds the same to the size of an image.
  const std::size_t one = image_bytes(1), two = image_bytes(2), three = image_bytes(3);
  if (two > one && three - two == two - one) {
    sample_bytes_ = two - one;
    before_samples_ = one - sample_bytes_;
  }
  formula_.emplace(sample_bytes_, settings_.metrics.size());
}

CounterImage PmSession::make_image(std::size_t samples, bool reusable) {
  std::vector<std::uint8_t> bytes(image_bytes(samples));
  auto image = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_CounterDataImage_Initialize_Params);
  image.pPmSamplingObject = object_.get();
  image.counterDataSize = bytes.size();
  image.pCounterData = bytes.data();
  (*api_)(api_->image_initialize, image);
  return {std::move(bytes), samples, reusable};
}

void PmSession::clear(CounterImage& image) const {
  const auto counted = info(image);
  const std::size_t written =
      std::max(counted.numPopulatedSamples, counted.numCompletedSamples) + kMargin;
  image.clear(sample_bytes_ == 0 ? image.size() : before_samples_ + written * sample_bytes_);
}

Decoded PmSession::decode(CounterImage& image) const {
  auto decoded = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_DecodeData_Params);
  decoded.pPmSamplingObject = object_.get();
  decoded.pCounterDataImage = image.data();
  decoded.counterDataImageSize = image.size();
  const CUptiResult result = api_->decode.attempt(decoded);
  if (result == CUPTI_ERROR_OUT_OF_MEMORY || decoded.overflow != 0) return Decoded::overflow;
  api_->check(result, api_->decode.name());
  return decoded.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
             ? Decoded::full
             : Decoded::all;
}

CUpti_PmSampling_GetCounterDataInfo_Params PmSession::info(const CounterImage& image) const {
  auto info = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_GetCounterDataInfo_Params);
  info.pCounterDataImage = image.data();
  info.counterDataImageSize = image.size();
  (*api_)(api_->image_info, info);
  return info;
}

std::optional<std::size_t> PmSession::evaluate(const CounterImage& image, std::size_t begin,
                                               Clock::time_point until, const Take& take) {
  const std::size_t end = info(image).numCompletedSamples;
  std::array<double, kMostMetrics> answer{};
  const std::span<const double> answered(answer.data(), settings_.metrics.size());
  auto time = LANESCOPE_CUPTI_PARAMETERS(CUpti_PmSampling_CounterData_GetSampleInfo_Params);
  time.pPmSamplingObject = object_.get();
  time.pCounterDataImage = image.data();
  time.counterDataImageSize = image.size();
  auto value = metrics_->question(image, answer.data());
  for (std::size_t i = begin; i < end; ++i) {
    bool late = (i + 1) % kLookEach == 0 && Clock::now() >= until;
    time.sampleIndex = value.rangeIndex = i;
    (*api_)(api_->sample_info, time);
    const double* known = formula_->find(image.data() + before_samples_ + i * sample_bytes_);
    if (known == nullptr) {
      const auto asking = Clock::now();
      (*api_)(api_->evaluate, value);
      ++asked_;
      if (formula_->learn(answered) == SampleFormula::Learned::progress) {
        const auto learned = Clock::now();
        learning_ += learned - asking;
        late = late || learned >= until;
      }
    }
    take(time.startTimestamp, time.endTimestamp,
         known == nullptr ? answered : std::span(known, answered.size()));
    if (late && i + 1 < end) return i + 1;
  }
  return std::nullopt;
}

}  // namespace lanescope::watch
