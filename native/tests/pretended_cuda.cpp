// The part of the CUDA runtime that channels and streams use, without a GPU. What is put on a
// stream happens later, in an order that a seed draws among all that streams and events allow: each
// query of an event lets some of it happen. All memory is the host's.

#include "pretended_cuda.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string_view>
#include <vector>

struct CUevent_st {
  int device;
  std::size_t recorded = 0;
  std::set<std::size_t> happened = {0};  // a stream waits for one record, and no other
};

struct CUstream_st {
  struct Step {
    std::function<void()> action;
    CUevent_st* waits_for = nullptr;
    std::size_t version = 0;
    std::function<bool()> able = {};
  };
  int device;
  std::deque<Step> steps;
};

namespace pretended {
namespace {

std::recursive_mutex mutex;
std::mt19937_64 random_bits;
std::set<CUstream_st*> streams;
std::map<int, CUstream_st> default_streams;
std::map<void*, std::size_t> device_memory;
std::map<int, std::size_t> calls_until_failure;
std::size_t calls_until_one_fails = 0;  // which is the last of them; 0 where none does
Calls calls_that_fail = Calls::all;
bool streams_wait_for_words = true;
CUstream_st* last_stream = nullptr;  // that went on
std::size_t most_device_bytes = std::size_t{1} << 40;
thread_local int current_device = 0;

CUstream_st& on(cudaStream_t stream) {
  if (stream != nullptr) return *stream;
  return default_streams.try_emplace(current_device, CUstream_st{current_device, {}}).first->second;
}

bool has_failed(int device) {
  const auto found = calls_until_failure.find(device);
  return found != calls_until_failure.end() && found->second == 0;
}

/// Whether this call of a kind is the one that fails.
bool fails_now(Calls kind) {
  if (kind != calls_that_fail || calls_until_one_fails == 0) return false;
  return --calls_until_one_fails == 0;
}

/// Lets one thing happen, mostly on the stream that went on last, as some are far ahead of others;
/// false where nothing can.
bool happen() {
  std::vector<CUstream_st*> able;
  const auto look = [&](CUstream_st& stream) {
    if (stream.steps.empty() || has_failed(stream.device)) return;
    const auto& step = stream.steps.front();
    if (step.waits_for != nullptr && !step.waits_for->happened.contains(step.version)) return;
    if (!step.able || step.able()) able.push_back(&stream);
  };
  for (CUstream_st* stream : streams) look(*stream);
  for (auto& [device, stream] : default_streams) look(stream);
  if (able.empty()) return false;
  if (random_bits() % 8 == 0 || std::ranges::find(able, last_stream) == able.end())
    last_stream = able[random_bits() % able.size()];
  CUstream_st& chosen = *last_stream;
  const auto step = std::move(chosen.steps.front());
  chosen.steps.pop_front();
  if (step.action) step.action();
  return true;
}

void happen_all() {
  while (happen()) {
  }
}

}  // namespace

void seed(std::uint64_t seed) {
  random_bits.seed(seed);
}
std::uint64_t draw() {
  const std::lock_guard lock(mutex);
  return random_bits();
}
void let_all_happen() {
  const std::lock_guard lock(mutex);
  happen_all();
}
void limit_device_memory(std::size_t bytes) {
  most_device_bytes = bytes;
}
void put(cudaStream_t stream, std::function<void()> action) {
  const std::lock_guard lock(mutex);
  on(stream).steps.push_back({std::move(action)});
}

cudaError_t called_for(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  for (auto steps = random_bits() % 4; steps > 0 && happen(); --steps) {
  }
  const int device = on(stream).device;
  if (has_failed(device)) return cudaErrorLaunchFailure;
  if (fails_now(Calls::all)) return cudaErrorUnknown;
  const auto found = calls_until_failure.find(device);
  if (found != calls_until_failure.end()) --found->second;
  return cudaSuccess;
}

void fail_after(int device, std::size_t calls) {
  const std::lock_guard lock(mutex);
  calls_until_failure[device] = calls;
}
void repair(int device) {
  const std::lock_guard lock(mutex);
  calls_until_failure.erase(device);
  for (CUstream_st* stream : streams)
    if (stream->device == device) stream->steps.clear();
}
void fail_one_after(std::size_t calls, Calls of) {
  const std::lock_guard lock(mutex);
  calls_until_one_fails = calls + 1;
  calls_that_fail = of;
}
bool has_failed_one() {
  return calls_until_one_fails == 0;
}
void let_streams_take_values(bool they_do) {
  streams_wait_for_words = they_do;
}
std::size_t steps_left(int device) {
  const std::lock_guard lock(mutex);
  std::size_t left = 0;
  for (const CUstream_st* stream : streams)
    if (stream->device == device) left += stream->steps.size();
  return left;
}
void put_when(cudaStream_t stream, std::function<bool()> able, std::function<void()> action) {
  const std::lock_guard lock(mutex);
  on(stream).steps.push_back({std::move(action), nullptr, 0, std::move(able)});
}

}  // namespace pretended

using namespace pretended;

namespace {

CUresult wait_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned) {
  if (!streams_wait_for_words) return CUDA_ERROR_NOT_SUPPORTED;
  if (called_for(stream) != cudaSuccess || fails_now(Calls::waits_for_words))
    return CUDA_ERROR_LAUNCH_FAILED;
  const auto* word = reinterpret_cast<const unsigned*>(at);
  put_when(stream, [=] { return static_cast<int>(*word - value) >= 0; }, {});
  return CUDA_SUCCESS;
}

CUresult write_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned) {
  if (called_for(stream) != cudaSuccess) return CUDA_ERROR_LAUNCH_FAILED;
  put(stream, [=] { *reinterpret_cast<unsigned*>(at) = value; });
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool waits = std::string_view(name) == "cuStreamWaitValue32";
  *found = reinterpret_cast<void*>(waits ? &wait_value : &write_value);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  while (!on(stream).steps.empty() && happen()) {
  }
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) {
  return "pretended";
}
const char* cudaGetErrorString(cudaError_t) {
  return "pretended";
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device > 1) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaDeviceDisablePeerAccess(int) {
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int*, int*) {
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  const std::lock_guard lock(mutex);
  *stream = new CUstream_st{current_device, {}};
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  happen_all();
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{current_device};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  happen_all();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (on(stream).device != event->device) return cudaErrorInvalidResourceHandle;
  if (const auto status = called_for(stream); status != cudaSuccess) return status;
  const std::size_t version = ++event->recorded;
  on(stream).steps.push_back({[=] { event->happened.insert(version); }});
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(mutex);
  if (const auto status = called_for(stream); status != cudaSuccess) return status;
  on(stream).steps.push_back({{}, event, event->recorded});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  for (auto steps = random_bits() % 16; steps > 0 && happen(); --steps) {
  }
  if (has_failed(event->device)) return cudaErrorLaunchFailure;
  return event->happened.contains(event->recorded) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin->device != end->device || begin->recorded == 0 || end->recorded == 0)
    return cudaErrorInvalidResourceHandle;
  *milliseconds = 1;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  std::size_t taken = 0;
  for (const auto& [at, size] : device_memory) taken += size;
  if (taken + bytes > most_device_bytes) return cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xEE, bytes);
  device_memory[*data] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard lock(mutex);
  happen_all();
  device_memory.erase(data);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t) {
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  put(stream, [=] {
    device_memory.erase(data);
    std::free(data);
  });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  *data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::memset(*data, 0xEE, bytes);
  return cudaSuccess;
}
// Processes are pretended, too: they have one memory.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  std::memcpy(handle, &data, sizeof data);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned) {
  std::memcpy(data, &handle, sizeof *data);
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void*) {
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 2;  // SMs
  return cudaSuccess;
}
cudaError_t cudaMallocManaged(void**, std::size_t, unsigned) {
  return cudaErrorNotSupported;
}
cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise, cudaMemLocation) {
  return cudaErrorNotSupported;
}
cudaError_t cudaFreeHost(void* data) {
  const std::lock_guard lock(mutex);
  happen_all();
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (const auto status = called_for(stream); status != cudaSuccess) return status;
  put(stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const auto status = called_for(stream); status != cudaSuccess) return status;
  put(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

}  // extern "C"
