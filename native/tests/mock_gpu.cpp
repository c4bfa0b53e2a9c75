// GPUs for tests: the functions of libcuda, libcupti and libnvidia-ml that lanescope calls, in one
// library. What it does is said by variables of the environment, read at each call:
//   MOCK_PM       gap, overflow (once), dead (overflows for ever), broken (fails after 20 ms),
//   narrow (overflows when samples are less than 8 us apart), slow (a sample takes 4 us to be
//   fetched), starting (10 us until sampling is begun anew), dear (values are no whole numbers, and
//   take 8 us to be evaluated), or nothing. The hardware's buffer holds as many samples as its
//   bytes say. MOCK_REFUSES  NAME=CODE,...: functions of CUPTI or NVML that fail, and with what;
//   NAME:NUMBER=CODE: of one GPU MOCK_NVLINK none (not supported), reset (the counters are set back
//   every 50 ms), timeless (they tell no times), or nothing: they grow by 600 GB/s received and 20
//   GB/s sent
// A sample every interval: 1000 bytes received, 100 sent; over NVLink
// seven times as much. The first is one that is none.
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_result.h>
#include <cupti_target.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Sample {
  std::uint64_t start, end;
};
struct Image {
  std::uint64_t room, count;
  Sample samples[];
};

struct Gpu {
  std::uint64_t interval, buffered, next_ns, begin_ns, stop_ns, index_of_next;
  int starts;
};
constexpr int kGpus = 16;
Gpu gpus[kGpus];

Gpu& gpu_of(CUpti_PmSampling_Object* object) {
  return *reinterpret_cast<Gpu*>(object);
}

const std::int64_t loaded_us = 1'700'000'000'000'000;  // when the driver was loaded
std::uint64_t kRate = 60'000'000'000;                  // bytes per second that NVML counts

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000ull + now.tv_nsec;
}

bool mode(const char* name) {
  const char* told = std::getenv("MOCK_PM");
  return told != nullptr && std::strcmp(told, name) == 0;
}

int refusal(const char* name) {
  const char* told = std::getenv("MOCK_REFUSES");
  if (told == nullptr) return 0;
  const std::string text = std::string(",") + told, wanted = std::string(",") + name + "=";
  const auto at = text.find(wanted);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + wanted.size());
}

int refusal_of(const char* name, std::size_t gpu) {
  const int own = refusal((std::string(name) + ":" + std::to_string(gpu)).c_str());
  return own != 0 ? own : refusal(name);
}

bool nvlink(const char* name) {
  const char* told = std::getenv("MOCK_NVLINK");
  return told != nullptr && std::strcmp(told, name) == 0;
}

CUptiResult answer(const char* name) {
  return static_cast<CUptiResult>(refusal(name));
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  return static_cast<CUresult>(refusal("cuInit"));
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == 26   ? "CUPTI_ERROR_HARDWARE_BUSY"
          : result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
          : result == 43 ? "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED"
                         : "CUPTI_ERROR_UNKNOWN";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params*) {
  for (Gpu& gpu : gpus) gpu.starts = 0;  // a new sampler
  return answer("cuptiProfilerInitialize");
}
CUptiResult cuptiProfilerDeviceSupported(CUpti_Profiler_DeviceSupported_Params*) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* p) {
  p->pChipName = "MOCK";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* p) {
  p->pHostObject = reinterpret_cast<CUpti_Profiler_Host_Object*>(8);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params*) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* p) {
  if (p->numMetrics > 2 && refusal("NVLink metrics") != 0) return answer("NVLink metrics");
  return answer("cuptiProfilerHostConfigAddMetrics");
}
CUptiResult cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params* p) {
  p->configImageSize = 8;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params*) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingGetCounterAvailability(
    CUpti_PmSampling_GetCounterAvailability_Params* p) {
  p->counterAvailabilityImageSize = 8;
  return answer("cuptiPmSamplingGetCounterAvailability");
}
CUptiResult cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params* p) {
  p->pPmSamplingObject = reinterpret_cast<CUpti_PmSampling_Object*>(&gpus[p->deviceIndex]);
  return static_cast<CUptiResult>(refusal_of("cuptiPmSamplingEnable", p->deviceIndex));
}
CUptiResult cuptiPmSamplingDisable(CUpti_PmSampling_Disable_Params*) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingSetConfig(CUpti_PmSampling_SetConfig_Params* p) {
  Gpu& gpu = gpu_of(p->pPmSamplingObject);
  gpu.interval = p->samplingInterval;
  gpu.buffered = p->hardwareBufferSize / 64;
  return answer("cuptiPmSamplingSetConfig");
}
CUptiResult cuptiPmSamplingStart(CUpti_PmSampling_Start_Params* p) {
  Gpu& gpu = gpu_of(p->pPmSamplingObject);
  gpu.begin_ns = gpu.next_ns = now_ns();
  gpu.stop_ns = gpu.index_of_next = 0;
  ++gpu.starts;
  return answer("cuptiPmSamplingStart");
}
CUptiResult cuptiPmSamplingStop(CUpti_PmSampling_Stop_Params* p) {
  gpu_of(p->pPmSamplingObject).stop_ns = now_ns();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingGetCounterDataSize(CUpti_PmSampling_GetCounterDataSize_Params* p) {
  p->counterDataSize = sizeof(Image) + p->maxSamples * sizeof(Sample);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingCounterDataImageInitialize(
    CUpti_PmSampling_CounterDataImage_Initialize_Params* p) {
  auto* image = reinterpret_cast<Image*>(p->pCounterData);
  image->room = (p->counterDataSize - sizeof(Image)) / sizeof(Sample);
  image->count = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingDecodeData(CUpti_PmSampling_DecodeData_Params* p) {
  Gpu& gpu = gpu_of(p->pPmSamplingObject);
  auto* image = reinterpret_cast<Image*>(p->pCounterDataImage);
  const std::uint64_t until = gpu.stop_ns != 0 ? gpu.stop_ns : now_ns();
  p->overflow = 0;
  p->decodeStopReason = CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
  const bool late = until - gpu.begin_ns > 20'000'000 && gpu.index_of_next > 60;
  if (late && mode("broken")) return CUPTI_ERROR_UNKNOWN;
  const bool held = until - gpu.next_ns <= gpu.buffered * gpu.interval;
  if (!held || (mode("dead") && (late || gpu.starts > 1)) ||
      (mode("overflow") && late && gpu.starts == 1) || (mode("narrow") && gpu.interval < 8000)) {
    p->overflow = 1;
    return CUPTI_ERROR_OUT_OF_MEMORY;
  }
  const std::uint64_t before = image->count;
  for (; gpu.next_ns + gpu.interval <= until; gpu.next_ns += gpu.interval, ++gpu.index_of_next) {
    if (mode("gap") && gpu.index_of_next == 100) gpu.next_ns += 10 * gpu.interval;
    if (image->count == image->room) {
      p->decodeStopReason = CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
      break;
    }
    const std::uint64_t early = gpu.index_of_next == 0 ? 500'000'000 : 0;
    image->samples[image->count++] = {gpu.next_ns - early, gpu.next_ns + gpu.interval};
  }
  if (mode("slow")) usleep(4 * (image->count - before));
  if (mode("starting") && gpu.starts == 1) usleep(10 * (image->count - before));
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingGetCounterDataInfo(CUpti_PmSampling_GetCounterDataInfo_Params* p) {
  const auto* image = reinterpret_cast<const Image*>(p->pCounterDataImage);
  p->numTotalSamples = p->numPopulatedSamples = p->numCompletedSamples = image->count;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiPmSamplingCounterDataGetSampleInfo(
    CUpti_PmSampling_CounterData_GetSampleInfo_Params* p) {
  const auto* image = reinterpret_cast<const Image*>(p->pCounterDataImage);
  p->startTimestamp = image->samples[p->sampleIndex].start;
  p->endTimestamp = image->samples[p->sampleIndex].end;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostEvaluateToGpuValues(
    CUpti_Profiler_Host_EvaluateToGpuValues_Params* p) {
  for (size_t i = 0; i < p->numMetrics; ++i) p->pMetricValues[i] = i % 2 != 0 ? 100 : 1000;
  for (size_t i = 2; i < p->numMetrics; ++i) p->pMetricValues[i] *= 7;  // NVLink
  if (!mode("dear")) return CUPTI_SUCCESS;
  for (size_t i = 0; i < p->numMetrics; ++i) p->pMetricValues[i] += 0.5;
  const std::uint64_t until = now_ns() + 8000;
  while (now_ns() < until) {
  }
  return CUPTI_SUCCESS;
}

struct Field {
  std::uint32_t id, scope;
  std::int64_t timestamp_us, latency_us;
  std::int32_t type, result;
  std::uint64_t value;
};

// Payload over all NVLinks, in KiB and 64 bits.
void count_nvlink(Field& field, std::int64_t now_us) {
  if (nvlink("none") || field.scope != 0xFFFFFFFF) field.result = 3;
  const std::int64_t since_us = nvlink("reset") ? now_us % 50'000 : now_us - loaded_us;
  const double rate = field.id == 139 ? 600'000 : 20'000;  // bytes per microsecond
  field.type = 3;
  field.value = static_cast<std::uint64_t>(since_us / 1024.0 * rate);
  if (nvlink("timeless")) field.timestamp_us = 0;
}

int nvmlInit_v2() {
  return refusal("nvmlInit_v2");
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int) {
  return "mock";
}
int nvmlDeviceGetHandleByUUID(const char*, void** device) {
  *device = nullptr;
  return refusal("nvmlDeviceGetHandleByUUID");
}
int nvmlDeviceGetFieldValues(void*, int count, Field* fields) {
  const std::int64_t now_us = now_ns() / 1000;
  for (int i = 0; i < count; ++i) {
    fields[i].timestamp_us = now_us;
    fields[i].type = 1;
    fields[i].result = refusal("nvmlDeviceGetFieldValues");
    if (fields[i].id == 138 || fields[i].id == 139) {
      count_nvlink(fields[i], now_us);
      continue;
    }
    const std::uint64_t counted = now_us * (kRate / 1'000'000) / (fields[i].id == 198 ? 1 : 10);
    fields[i].value = counted & 0xFFFFFFFF;
  }
  return 0;
}
int nvmlDeviceGetPcieThroughput(void*, int direction, unsigned* value) {
  usleep(3000);
  *value = direction == 1 ? 5'000'000 : 1'000'000;  // 5 and 1 GB/s
  return refusal("nvmlDeviceGetPcieThroughput");
}

}  // extern "C"
