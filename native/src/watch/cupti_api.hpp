#pragma once

#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_result.h>
#include <cupti_target.h>

#include <cstddef>
#include <source_location>
#include <string>

#include "watch/library.hpp"

/// Parameters of a call of CUPTI, empty but for their size, which CUPTI names by a macro each.
#define LANESCOPE_CUPTI_PARAMETERS(type) \
  ::lanescope::watch::sized_parameters<type>(type##_STRUCT_SIZE)

namespace lanescope::watch {

template <typename Parameters>
Parameters sized_parameters(std::size_t bytes) {
  Parameters parameters{};
  parameters.structSize = bytes;
  return parameters;
}

/// One function of CUPTI that takes its parameters by address.
template <typename Parameters>
class CuptiCall {
 public:
  /// Throws `Error` named "too old" where the library lacks `name`.
  CuptiCall(const Library& library, const char* name)
      : name_(name), function_(library.function<Function>(name)) {}

  /// Calls it and returns what it said.
  CUptiResult attempt(Parameters& parameters) const noexcept { return function_(&parameters); }

  const char* name() const noexcept { return name_; }

 private:
  using Function = CUptiResult(CUPTIAPI*)(Parameters*);

  const char* name_;
  Function function_;
};

/// The functions of CUPTI that PM sampling needs, of a library that is opened at run time.
struct CuptiApi {
  /// Opens libcupti; see `open_cupti`. Throws `Error`, named "too old" before CUPTI 12.6.
  explicit CuptiApi(const std::string& path) : library(open_cupti(path)) {}

  /// Throws `Error` with CUPTI's name of `result`, unless it is success.
  void check(CUptiResult result, const char* name,
             std::source_location where = std::source_location::current()) const;

  /// Calls `call`. Throws `Error` when it fails.
  template <typename Parameters>
  void operator()(const CuptiCall<Parameters>& call, Parameters& parameters,
                  std::source_location where = std::source_location::current()) const {
    check(call.attempt(parameters), call.name(), where);
  }

  Library library;
  CuptiCall<CUpti_Profiler_Initialize_Params> initialize{library, "cuptiProfilerInitialize"};
  CuptiCall<CUpti_Profiler_DeviceSupported_Params> device_supported{library,
                                                                    "cuptiProfilerDeviceSupported"};
  CuptiCall<CUpti_Device_GetChipName_Params> chip_name{library, "cuptiDeviceGetChipName"};
  CuptiCall<CUpti_Profiler_Host_Initialize_Params> host_initialize{library,
                                                                   "cuptiProfilerHostInitialize"};
  CuptiCall<CUpti_Profiler_Host_Deinitialize_Params> host_deinitialize{
      library, "cuptiProfilerHostDeinitialize"};
  CuptiCall<CUpti_Profiler_Host_ConfigAddMetrics_Params> add_metrics{
      library, "cuptiProfilerHostConfigAddMetrics"};
  CuptiCall<CUpti_Profiler_Host_GetConfigImageSize_Params> config_size{
      library, "cuptiProfilerHostGetConfigImageSize"};
  CuptiCall<CUpti_Profiler_Host_GetConfigImage_Params> config_image{
      library, "cuptiProfilerHostGetConfigImage"};
  CuptiCall<CUpti_Profiler_Host_EvaluateToGpuValues_Params> evaluate{
      library, "cuptiProfilerHostEvaluateToGpuValues"};
  CuptiCall<CUpti_PmSampling_GetCounterAvailability_Params> availability{
      library, "cuptiPmSamplingGetCounterAvailability"};
  CuptiCall<CUpti_PmSampling_Enable_Params> enable{library, "cuptiPmSamplingEnable"};
  CuptiCall<CUpti_PmSampling_Disable_Params> disable{library, "cuptiPmSamplingDisable"};
  CuptiCall<CUpti_PmSampling_SetConfig_Params> set_config{library, "cuptiPmSamplingSetConfig"};
  CuptiCall<CUpti_PmSampling_Start_Params> start{library, "cuptiPmSamplingStart"};
  CuptiCall<CUpti_PmSampling_Stop_Params> stop{library, "cuptiPmSamplingStop"};
  CuptiCall<CUpti_PmSampling_DecodeData_Params> decode{library, "cuptiPmSamplingDecodeData"};
  CuptiCall<CUpti_PmSampling_GetCounterDataSize_Params> image_size{
      library, "cuptiPmSamplingGetCounterDataSize"};
  CuptiCall<CUpti_PmSampling_CounterDataImage_Initialize_Params> image_initialize{
      library, "cuptiPmSamplingCounterDataImageInitialize"};
  CuptiCall<CUpti_PmSampling_GetCounterDataInfo_Params> image_info{
      library, "cuptiPmSamplingGetCounterDataInfo"};
  CuptiCall<CUpti_PmSampling_CounterData_GetSampleInfo_Params> sample_info{
      library, "cuptiPmSamplingCounterDataGetSampleInfo"};
};

}  // namespace lanescope::watch
