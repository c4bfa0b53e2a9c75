#pragma once

#include <cstdint>
#include <source_location>
#include <string>

#include "watch/library.hpp"

namespace lanescope::watch {

struct NvmlField;  // as nvml.h has it

struct NvmlDevice;

/// What the GPU's link to the host has carried, as seen from the GPU.
enum class Direction { sent = 0, received = 1 };

/// Both counters of a GPU's link as they are now, modulo 2^32.
struct WireCounters {
  std::uint64_t time_ns;  ///< CLOCK_REALTIME, by the driver: the middle of both readings.
  std::uint32_t received;
  std::uint32_t sent;
};

/// Payload that all NVLinks of a GPU together have carried, in KiB, without protocol.
struct NvlinkCounters {
  /// CLOCK_REALTIME, by the driver: the middle of both readings; 0 where it does not tell.
  std::uint64_t time_ns;
  std::uint64_t received_kib;
  std::uint64_t sent_kib;
};

/// The part of NVML that counts bytes, of the library that is found at run time.
///
/// Declared here and not by nvml.h: this binary interface has not changed since it came. Several
/// may be open at once: NVML counts them.
class NvmlApi {
 public:
  /// Opens and begins NVML. Throws `Error` with NVML's name, or as `open_nvml` does.
  NvmlApi();
  ~NvmlApi();
  NvmlApi(const NvmlApi&) = delete;
  NvmlApi& operator=(const NvmlApi&) = delete;

  /// The GPU of a UUID such as "GPU-...". Throws `Error`.
  NvmlDevice* device(const std::string& uuid) const;

  /// Bytes on the wire since the driver was loaded. Takes 160 to 500 us of CPU. Throws `Error`.
  WireCounters wire_bytes(NvmlDevice* device) const;

  /// Payload over NVLink since the counters began. Throws `Error`, also where there is none.
  NvlinkCounters nvlink_kib(NvmlDevice* device) const;

  /// What the link carried during the last 20 ms, in 1000 bytes per second; it waits for
  /// those. Throws `Error`.
  std::uint32_t throughput(NvmlDevice* device, Direction direction) const;

 private:
  void read(NvmlDevice* device, int count, NvmlField* fields) const;
  void check(int result, const char* call,
             std::source_location where = std::source_location::current()) const;

  Library library_;
  int (*shutdown_)() = nullptr;
  int (*device_by_uuid_)(const char*, NvmlDevice**) = nullptr;
  int (*fields_)(NvmlDevice*, int, NvmlField*) = nullptr;
  int (*throughput_)(NvmlDevice*, int, std::uint32_t*) = nullptr;
};

}  // namespace lanescope::watch
