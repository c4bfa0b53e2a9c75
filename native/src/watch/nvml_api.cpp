#include "watch/nvml_api.hpp"

#include "error.hpp"

namespace lanescope::watch {

/// nvmlFieldValue_t.
struct NvmlField {
  std::uint32_t id;
  std::uint32_t scope;
  std::int64_t timestamp_us;  ///< CLOCK_REALTIME, by the driver.
  std::int64_t latency_us;
  std::int32_t value_type;
  std::int32_t result;
  union {
    double real;
    std::uint32_t low;  ///< All, or the lower half, of a whole number.
    std::uint64_t whole;
  } value;
};
static_assert(sizeof(NvmlField) == 40);

namespace {

constexpr std::uint32_t kSentField = 197, kReceivedField = 198;
// Without protocol; 140 and 141 count that, too.
constexpr std::uint32_t kNvlinkSentField = 138, kNvlinkReceivedField = 139;
constexpr std::uint32_t kAllLinks = 0xFFFFFFFF;          // a scope: the sum over all NVLinks
constexpr std::int32_t kFirstWhole = 1, kLastWhole = 3;  // types: unsigned, of 32 or 64 bits

/// The middle of the times of two readings.
std::uint64_t middle_ns(const NvmlField (&fields)[2]) {
  return static_cast<std::uint64_t>(fields[0].timestamp_us + fields[1].timestamp_us) * 500;
}

/// A value of any width: of the first whole type the upper half is not written.
std::uint64_t whole(const NvmlField& field) {
  return field.value_type == kFirstWhole ? field.value.low : field.value.whole;
}

/// NVML's names of what may happen here, by their numbers.
const char* name_of(int result) {
  switch (result) {
    case 1:
      return "NVML_ERROR_UNINITIALIZED";
    case 2:
      return "NVML_ERROR_INVALID_ARGUMENT";
    case 3:
      return "NVML_ERROR_NOT_SUPPORTED";
    case 4:
      return "NVML_ERROR_NO_PERMISSION";
    case 6:
      return "NVML_ERROR_NOT_FOUND";
    case 9:
      return "NVML_ERROR_DRIVER_NOT_LOADED";
    case 12:
      return "NVML_ERROR_LIBRARY_NOT_FOUND";
    case 15:
      return "NVML_ERROR_GPU_IS_LOST";
    case 18:
      return "NVML_ERROR_LIB_RM_VERSION_MISMATCH";
    default:
      return "NVML error";
  }
}

}  // namespace

NvmlApi::NvmlApi() : library_(open_nvml()) {
  device_by_uuid_ = library_.function<decltype(device_by_uuid_)>("nvmlDeviceGetHandleByUUID");
  fields_ = library_.function<decltype(fields_)>("nvmlDeviceGetFieldValues");
  throughput_ = library_.function<decltype(throughput_)>("nvmlDeviceGetPcieThroughput");
  const auto shutdown = library_.function<decltype(shutdown_)>("nvmlShutdown");
  check(library_.function<int (*)()>("nvmlInit_v2")(), "nvmlInit_v2");
  shutdown_ = shutdown;
}

NvmlApi::~NvmlApi() {
  if (shutdown_ != nullptr) shutdown_();
}

void NvmlApi::check(int result, const char* call, std::source_location where) const {
  if (result == 0) return;
  const auto words = reinterpret_cast<const char* (*)(int)>(library_.find("nvmlErrorString"));
  throw Error(call, result, name_of(result), words == nullptr ? "NVML refused" : words(result),
              where);
}

NvmlDevice* NvmlApi::device(const std::string& uuid) const {
  NvmlDevice* device = nullptr;
  check(device_by_uuid_(uuid.c_str(), &device), "nvmlDeviceGetHandleByUUID");
  return device;
}

void NvmlApi::read(NvmlDevice* device, int count, NvmlField* fields) const {
  check(fields_(device, count, fields), "nvmlDeviceGetFieldValues");
  for (const NvmlField* field = fields; field != fields + count; ++field) {
    check(field->result, "nvmlDeviceGetFieldValues");
    if (field->value_type < kFirstWhole || field->value_type > kLastWhole)
      throw Error("nvmlDeviceGetFieldValues", field->value_type, "other type",
                  "the counters are no whole numbers");
  }
}

WireCounters NvmlApi::wire_bytes(NvmlDevice* device) const {
  NvmlField fields[2] = {};
  fields[0].id = kSentField;
  fields[1].id = kReceivedField;
  read(device, 2, fields);
  return {middle_ns(fields), fields[1].value.low, fields[0].value.low};
}

NvlinkCounters NvmlApi::nvlink_kib(NvmlDevice* device) const {
  NvmlField fields[2] = {};
  fields[0].id = kNvlinkSentField;
  fields[1].id = kNvlinkReceivedField;
  fields[0].scope = fields[1].scope = kAllLinks;
  read(device, 2, fields);
  return {middle_ns(fields), whole(fields[1]), whole(fields[0])};
}

std::uint32_t NvmlApi::throughput(NvmlDevice* device, Direction direction) const {
  std::uint32_t value = 0;
  check(throughput_(device, static_cast<int>(direction), &value), "nvmlDeviceGetPcieThroughput");
  return value;
}

}  // namespace lanescope::watch
