// A libcuda.so.1 for tests whose GPUs are memory of the host and whose streams are threads that lag
// behind: each operation waits for those that CUDA has it wait for, then a moment more, so that who
// reads, writes or frees too early is found out. Copies of pageable memory keep no more than CUDA's
// documentation promises of them.
//
// MOCK_LAG_US: what each operation waits; MOCK_PAGEABLE_US: what a copy of pageable memory takes;
// MOCK_SHARED: GPUs say that they read and write pageable memory. Built with MOCK_CUDA 12080 it has
// the first form of cuMemcpyBatchAsync alone, with less none.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#ifndef MOCK_CUDA
#define MOCK_CUDA 13000
#endif
#define API extern "C" __attribute__((visibility("default")))

namespace {

struct Stream;
using Time = std::pair<Stream*, std::uint64_t>;  // after so many operations of a stream

struct Operation {
  std::vector<Time> after;
  std::function<void()> run;
};

struct Context {
  CUdevice device;
  unsigned long long id;
  Stream* legacy;
  std::set<Stream*> all;
  std::set<Stream*> blocking;  // those that wait for the legacy one, and that one for them
  std::map<std::thread::id, Stream*> per_thread;
};

struct Stream {
  Context* context;
  bool is_blocking;
  std::deque<Operation> waiting;
  std::uint64_t given = 0, done = 0;
  bool captured = false;
};

struct Event {
  Time time{nullptr, 0};
};

struct Range {
  std::size_t bytes;
  unsigned kind;
  bool managed;
  Context* context;
};

// Never destroyed: streams go on while a program ends.
std::mutex& mutex = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
std::map<CUdeviceptr, Range>& ranges = *new std::map<CUdeviceptr, Range>;  // by their first byte
pid_t initialised = 0;
unsigned long long contexts = 0;
Context* destroyed = nullptr;  // the last one
int captures = 0;
bool invalidated = false;
thread_local Context* current = nullptr;
thread_local std::vector<Context*> pushed;
thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
std::atomic<int> pageable_copies, pinned_copies, batches, fail_after{-1}, captured_copies;
std::atomic<bool> always_fails;

long setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atol(text);
}

void pass(const char* name) {
  if (const long us = setting(name)) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

bool is_over(const std::vector<Time>& times) {
  for (const auto& [stream, count] : times)
    if (stream->done < count) return false;
  return true;
}

void work(Stream* stream) {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return !stream->waiting.empty(); });
    Operation next = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    changed.wait(lock, [&] { return is_over(next.after); });
    lock.unlock();
    pass("MOCK_LAG_US");
    if (next.run) next.run();
    lock.lock();
    ++stream->done;
    changed.notify_all();
  }
}

// All below: `mutex` is held.

Stream* new_stream(Context* context, bool is_blocking) {
  auto* made = new Stream{context, is_blocking};
  context->all.insert(made);
  if (is_blocking && context->legacy != nullptr) context->blocking.insert(made);
  std::thread(work, made).detach();
  return made;
}

Stream* stream_of(CUstream handle, bool per_thread) {
  if (handle == nullptr) handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) return current->legacy;
  if (handle != CU_STREAM_PER_THREAD) return reinterpret_cast<Stream*>(handle);
  Stream*& own = current->per_thread[std::this_thread::get_id()];
  if (own == nullptr) own = new_stream(current, true);
  return own;
}

Time give(Stream* stream, std::function<void()> run, std::vector<Time> after = {}) {
  Context* context = stream->context;
  if (stream == context->legacy)
    for (Stream* other : context->blocking) after.emplace_back(other, other->given);
  else if (stream->is_blocking)
    after.emplace_back(context->legacy, context->legacy->given);
  stream->waiting.push_back({std::move(after), std::move(run)});
  ++stream->given;
  changed.notify_all();
  return {stream, stream->given};
}

void wait_for(std::unique_lock<std::mutex>& lock, Time time) {
  changed.wait(lock, [&] { return time.first == nullptr || time.first->done >= time.second; });
}

const Range* range_of(CUdeviceptr address, CUdeviceptr* begin = nullptr) {
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin()) return nullptr;
  --found;
  if (begin != nullptr) *begin = found->first;
  return address - found->first < found->second.bytes ? &found->second : nullptr;
}

bool is_unknown(CUdeviceptr address, std::size_t bytes) {
  return range_of(address) == nullptr && range_of(address + bytes - 1) == nullptr;
}

bool holds(CUdeviceptr address, std::size_t bytes) {
  CUdeviceptr begin = 0;
  const Range* range = range_of(address, &begin);
  return range != nullptr && address + bytes <= begin + range->bytes;
}

/// @return whether this copy of pinned memory is to fail.
bool fails() {
  return (fail_after >= 0 && fail_after-- == 0) || always_fails;
}

/// What must not be called while a stream is captured, unless a thread has said that it may.
CUresult unsafe() {
  if (captures == 0 || mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

char* bytes_at(CUdeviceptr address) {
  return reinterpret_cast<char*>(address);
}

CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream handle, bool per_thread,
              bool asynchronous) {
  if (initialised != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0) return CUDA_SUCCESS;
  std::unique_lock lock(mutex);
  Stream* stream = stream_of(handle, per_thread);
  const bool reads_host = is_unknown(from, bytes), writes_host = is_unknown(to, bytes);
  if ((!reads_host && !holds(from, bytes)) || (!writes_host && !holds(to, bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->captured) {
    ++captured_copies;
    return CUDA_SUCCESS;
  }
  if (!asynchronous)
    if (const CUresult result = unsafe(); result != CUDA_SUCCESS) return result;
  if (!reads_host && !writes_host) {
    if (fails()) return CUDA_ERROR_LAUNCH_FAILED;
    ++pinned_copies;
    const Time time = give(stream, [=] { std::memmove(bytes_at(to), bytes_at(from), bytes); });
    if (!asynchronous) wait_for(lock, time);
    return CUDA_SUCCESS;
  }
  ++pageable_copies;
  auto staged = std::make_shared<std::vector<char>>(bytes);
  if (reads_host) {  // the bytes may arrive later, but it does not read the memory any more
    if (!asynchronous) wait_for(lock, give(stream, nullptr));
    lock.unlock();
    pass("MOCK_PAGEABLE_US");
    std::memcpy(staged->data(), bytes_at(from), bytes);
    lock.lock();
    give(stream, [=] { std::memcpy(bytes_at(to), staged->data(), bytes); });
  } else {
    wait_for(lock, give(stream, [=] { std::memcpy(staged->data(), bytes_at(from), bytes); }));
    lock.unlock();
    pass("MOCK_PAGEABLE_US");
    std::memcpy(bytes_at(to), staged->data(), bytes);
  }
  return CUDA_SUCCESS;
}

CUdeviceptr at(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

CUresult new_range(CUdeviceptr* to, std::size_t bytes, unsigned kind, bool managed) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(mutex);
  ranges[*to = at(memory)] = {bytes, kind, managed, current};
  return CUDA_SUCCESS;
}

CUstream handle_of(Stream* stream) {
  return reinterpret_cast<CUstream>(stream);
}

Event* event_of(CUevent event) {
  return reinterpret_cast<Event*>(event);
}

}  // namespace

// ---- What tests ask

API int mock_pageable_copies() {
  return pageable_copies;
}
API int mock_pinned_copies() {
  return pinned_copies;
}
API int mock_captured_copies() {
  return captured_copies;
}
API int mock_batches() {
  return batches;
}
/// From now on all copies of pinned memory fail, or none.
API void mock_always_fails(bool fail) {
  always_fails = fail;
}
/// From the so many-th on, one copy of pinned memory fails.
API void mock_fail_after(int copies) {
  fail_after = copies;
}

// ---- Devices and contexts

API CUresult cuInit(unsigned) {
  initialised = getpid();
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetCount(int* count) {
  *count = 2;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute name, CUdevice) {
  *value = name == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS && setting("MOCK_SHARED") != 0;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetPCIBusId(char* address, int size, CUdevice gpu) {
  std::snprintf(address, static_cast<std::size_t>(size), "0000:%02X:00.0", gpu == 0 ? 0xC1 : 0x0A);
  return CUDA_SUCCESS;
}
API CUresult cuCtxCreate_v2(CUcontext* to, unsigned, CUdevice device) {
  const std::lock_guard lock(mutex);
  // one that is made after another was destroyed has its handle
  auto* made = destroyed == nullptr ? new Context : std::exchange(destroyed, nullptr);
  *made = {device, ++contexts, nullptr, {}, {}, {}};
  made->legacy = new_stream(made, true);
  current = made;
  *to = reinterpret_cast<CUcontext>(made);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGet(CUdevice* to, int number) {
  *to = number;
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRetain(CUcontext* to, CUdevice device) {
  static CUcontext primary[2] = {};
  if (initialised != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  if (device < 0 || device > 1) return CUDA_ERROR_INVALID_DEVICE;
  static std::mutex making;
  const std::lock_guard lock(making);
  Context* before = current;
  if (primary[device] == nullptr) cuCtxCreate_v2(&primary[device], 0, device);
  current = before;
  *to = primary[device];
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return CUDA_SUCCESS;
}
API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  pushed.push_back(current);
  current = reinterpret_cast<Context*>(context);
  return CUDA_SUCCESS;
}
API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (pushed.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(current);
  current = pushed.back();
  pushed.pop_back();
  return CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_INVALID_VALUE ? "invalid argument" : nullptr;
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
API CUresult cuCtxDestroy_v2(CUcontext context) {
  cuCtxSynchronize();
  const std::lock_guard lock(mutex);
  destroyed = reinterpret_cast<Context*>(context);
  std::erase_if(ranges, [](const auto& range) { return range.second.context == destroyed; });
  if (current == destroyed) current = nullptr;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetCurrent(CUcontext context) {
  current = reinterpret_cast<Context*>(context);
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetCurrent(CUcontext* to) {
  *to = reinterpret_cast<CUcontext>(current);
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetDevice(CUdevice* to) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *to = current->device;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  *id = reinterpret_cast<Context*>(context)->id;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSynchronize() {
  std::unique_lock lock(mutex);
  if (const CUresult result = unsafe(); result != CUDA_SUCCESS) return result;
  const std::set<Stream*> all = current->all;
  for (Stream* stream : all) wait_for(lock, {stream, stream->given});
  return CUDA_SUCCESS;
}
API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* other) {
  std::swap(mode, *other);
  return CUDA_SUCCESS;
}

// ---- Memory

API CUresult cuMemAlloc_v2(CUdeviceptr* to, std::size_t bytes) {
  return new_range(to, bytes, CU_MEMORYTYPE_DEVICE, false);
}
API CUresult cuMemFree_v2(CUdeviceptr memory) {
  cuCtxSynchronize();
  const std::lock_guard lock(mutex);
  const auto found = ranges.find(memory);
  if (found == ranges.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(bytes_at(memory), found->second.bytes);
  ranges.erase(found);
  return CUDA_SUCCESS;
}
API CUresult cuMemAllocManaged(CUdeviceptr* to, std::size_t bytes, unsigned) {
  return new_range(to, bytes, CU_MEMORYTYPE_DEVICE, true);
}
API CUresult cuMemHostAlloc(void** to, std::size_t bytes, unsigned) {
  CUdeviceptr memory = 0;
  const CUresult result = new_range(&memory, bytes, CU_MEMORYTYPE_HOST, false);
  *to = bytes_at(memory);
  return result;
}
API CUresult cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  if (setting("MOCK_NO_ROOM") != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(mutex);
  if (const CUresult result = unsafe(); result != CUDA_SUCCESS) return result;
  ranges[at(memory)] = {bytes, CU_MEMORYTYPE_HOST, false, current};
  return CUDA_SUCCESS;
}
API CUresult cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(mutex);
  ranges.erase(at(memory));
  return CUDA_SUCCESS;
}
API CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* names, void** values,
                                    CUdeviceptr address) {
  const std::lock_guard lock(mutex);
  CUdeviceptr begin = 0;
  const Range* range = range_of(address, &begin);
  for (unsigned i = 0; i < count; ++i) switch (names[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = range == nullptr ? 0 : range->kind;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(values[i]) = range != nullptr && range->managed;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = range == nullptr ? -2 : range->context->device;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(values[i]) = range == nullptr ? 0 : begin;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<std::size_t*>(values[i]) = range == nullptr ? 0 : range->bytes;
        break;
      default:
        *static_cast<CUcontext*>(values[i]) =
            range == nullptr ? nullptr : reinterpret_cast<CUcontext>(range->context);
    }
  return CUDA_SUCCESS;
}

// ---- Streams and events

API CUresult cuStreamCreate(CUstream* to, unsigned flags) {
  const std::lock_guard lock(mutex);
  *to = handle_of(new_stream(current, (flags & CU_STREAM_NON_BLOCKING) == 0));
  return CUDA_SUCCESS;
}
API CUresult cuStreamSynchronize(CUstream stream) {
  std::unique_lock lock(mutex);
  if (const CUresult result = unsafe(); result != CUDA_SUCCESS) return result;
  wait_for(lock, give(stream_of(stream, false), nullptr));
  return CUDA_SUCCESS;
}
API CUresult cuStreamQuery(CUstream handle) {
  const std::lock_guard lock(mutex);
  if (const CUresult result = unsafe(); result != CUDA_SUCCESS) return result;
  const Stream* stream = stream_of(handle, false);
  return stream->done < stream->given ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
/// What was given to it goes on; its thread stays.
API CUresult cuStreamDestroy_v2(CUstream) {
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetCtx(CUstream stream, CUcontext* to) {
  *to = reinterpret_cast<CUcontext>(reinterpret_cast<Stream*>(stream)->context);
  return CUDA_SUCCESS;
}
API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  const std::lock_guard lock(mutex);
  give(stream_of(stream, false), nullptr, {event_of(event)->time});
  return CUDA_SUCCESS;
}
API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  const std::lock_guard lock(mutex);
  give(stream_of(stream, false), [=] { function(data); });
  return CUDA_SUCCESS;
}
API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  const std::lock_guard lock(mutex);
  stream_of(stream, false)->captured = true;
  ++captures;
  invalidated = false;
  return CUDA_SUCCESS;
}
API CUresult cuStreamEndCapture(CUstream stream, CUgraph*) {
  const std::lock_guard lock(mutex);
  stream_of(stream, false)->captured = false;
  --captures;
  return invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}
API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const std::lock_guard lock(mutex);
  *status = stream_of(stream, false)->captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                               : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
API CUresult cuEventCreate(CUevent* to, unsigned) {
  *to = reinterpret_cast<CUevent>(new Event);
  return CUDA_SUCCESS;
}
API CUresult cuEventRecord(CUevent event, CUstream stream) {
  const std::lock_guard lock(mutex);
  event_of(event)->time = give(stream_of(stream, false), nullptr);
  return CUDA_SUCCESS;
}
API CUresult cuEventQuery(CUevent event) {
  const std::lock_guard lock(mutex);
  if (const CUresult result = unsafe(); result != CUDA_SUCCESS) return result;
  const Time time = event_of(event)->time;
  return time.first == nullptr || time.first->done >= time.second ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_NOT_READY;
}

// ---- Copies

API CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, std::size_t bytes,
                             CUstream stream) {
  const std::lock_guard lock(mutex);
  give(stream_of(stream, false), [=] { std::memset(bytes_at(at), value, bytes); });
  return CUDA_SUCCESS;
}
API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy(to, at(from), bytes, nullptr, false, false);
}
API CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy(to, at(from), bytes, nullptr, true, false);
}
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                                  CUstream stream) {
  return copy(to, at(from), bytes, stream, false, true);
}
API CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, std::size_t bytes,
                                       CUstream stream) {
  return copy(to, at(from), bytes, stream, true, true);
}
API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy(at(to), from, bytes, nullptr, false, false);
}
API CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy(at(to), from, bytes, nullptr, true, false);
}
API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(at(to), from, bytes, stream, false, true);
}
API CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, std::size_t bytes,
                                       CUstream stream) {
  return copy(at(to), from, bytes, stream, true, true);
}
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy(to, from, bytes, nullptr, false, false);
}
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(to, from, bytes, stream, false, true);
}

namespace {

/// Copies of a batch come in any order: here from the last to the first.
CUresult copy_batch(const CUdeviceptr* to, const CUdeviceptr* from, const std::size_t* bytes,
                    std::size_t count, const CUmemcpyAttributes* attributes, CUstream handle) {
  const std::lock_guard lock(mutex);
  Stream* stream = stream_of(handle, false);
  if (stream == current->legacy || stream->captured || count == 0 ||
      attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i)
    if (bytes[i] == 0 || !holds(to[i], bytes[i]) || !holds(from[i], bytes[i]))
      return CUDA_ERROR_INVALID_VALUE;
  if (fails()) return CUDA_ERROR_LAUNCH_FAILED;
  ++batches;
  struct One {
    CUdeviceptr to, from;
    std::size_t bytes;
  };
  std::vector<One> all;
  for (std::size_t i = count; i-- > 0;) all.push_back({to[i], from[i], bytes[i]});
  give(stream, [all] {
    for (const One& one : all) std::memmove(bytes_at(one.to), bytes_at(one.from), one.bytes);
  });
  return CUDA_SUCCESS;
}

}  // namespace

#undef cuMemcpyBatchAsync
#if MOCK_CUDA >= 12080
API CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                                std::size_t count, CUmemcpyAttributes* attributes, std::size_t*,
                                std::size_t, std::size_t*, CUstream stream) {
  return copy_batch(to, from, bytes, count, attributes, stream);
}
#endif
#if MOCK_CUDA >= 13000
API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                                   std::size_t count, CUmemcpyAttributes* attributes, std::size_t*,
                                   std::size_t, CUstream stream) {
  return copy_batch(to, from, bytes, count, attributes, stream);
}
#endif

/// A kernel is a function of the host, with one argument; what it is launched with is told by
/// `mock_launched`.
namespace {
std::atomic<unsigned> launched;
}
API unsigned mock_launched() {
  return launched;
}
API CUresult cuLaunchKernel(CUfunction function, unsigned a, unsigned b, unsigned c, unsigned d,
                            unsigned e, unsigned f, unsigned shared, CUstream stream, void** values,
                            void** extra) {
  unsigned told = extra == nullptr ? 1 : 2;
  for (const unsigned one : {a, b, c, d, e, f, shared}) told = told * 31 + one;
  launched = told;
  const auto run = reinterpret_cast<void (*)(void*)>(function);
  void* const value = *static_cast<void**>(values[0]);
  const std::lock_guard lock(mutex);
  give(stream_of(stream, false), [=] { run(value); });
  return CUDA_SUCCESS;
}

/// Copies, and what programs call behind them.
#undef cuGetProcAddress
API CUresult cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult*) {
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const struct {
    const char* name;
    void *legacy, *own;
  } known[] = {
      {"cuMemcpyHtoD", reinterpret_cast<void*>(&cuMemcpyHtoD_v2),
       reinterpret_cast<void*>(&cuMemcpyHtoD_v2_ptds)},
      {"cuMemcpyHtoDAsync", reinterpret_cast<void*>(&cuMemcpyHtoDAsync_v2),
       reinterpret_cast<void*>(&cuMemcpyHtoDAsync_v2_ptsz)},
      {"cuMemcpyDtoH", reinterpret_cast<void*>(&cuMemcpyDtoH_v2),
       reinterpret_cast<void*>(&cuMemcpyDtoH_v2_ptds)},
      {"cuMemcpyDtoHAsync", reinterpret_cast<void*>(&cuMemcpyDtoHAsync_v2),
       reinterpret_cast<void*>(&cuMemcpyDtoHAsync_v2_ptsz)},
      {"cuMemcpy", reinterpret_cast<void*>(&cuMemcpy), nullptr},
      {"cuMemcpyAsync", reinterpret_cast<void*>(&cuMemcpyAsync), nullptr},
      {"cuMemsetD8Async", reinterpret_cast<void*>(&cuMemsetD8Async), nullptr},
      {"cuLaunchKernel", reinterpret_cast<void*>(&cuLaunchKernel), nullptr},
      {"cuLaunchHostFunc", reinterpret_cast<void*>(&cuLaunchHostFunc), nullptr},
      {"cuEventRecord", reinterpret_cast<void*>(&cuEventRecord), nullptr},
      {"cuEventQuery", reinterpret_cast<void*>(&cuEventQuery), nullptr},
      {"cuStreamWaitEvent", reinterpret_cast<void*>(&cuStreamWaitEvent), nullptr},
      {"cuStreamQuery", reinterpret_cast<void*>(&cuStreamQuery), nullptr},
      {"cuStreamSynchronize", reinterpret_cast<void*>(&cuStreamSynchronize), nullptr},
      {"cuStreamDestroy", reinterpret_cast<void*>(&cuStreamDestroy_v2), nullptr},
      {"cuStreamBeginCapture", reinterpret_cast<void*>(&cuStreamBeginCapture_v2), nullptr},
      {"cuStreamEndCapture", reinterpret_cast<void*>(&cuStreamEndCapture), nullptr},
      {"cuCtxSetCurrent", reinterpret_cast<void*>(&cuCtxSetCurrent), nullptr},
      {"cuCtxSynchronize", reinterpret_cast<void*>(&cuCtxSynchronize), nullptr},
      {"cuCtxDestroy", reinterpret_cast<void*>(&cuCtxDestroy_v2), nullptr},
      {"cuMemFree", reinterpret_cast<void*>(&cuMemFree_v2), nullptr},
      {"cuMemHostRegister", reinterpret_cast<void*>(&cuMemHostRegister_v2), nullptr},
      {"cuMemHostUnregister", reinterpret_cast<void*>(&cuMemHostUnregister), nullptr},
  };
  for (const auto& one : known)
    if (std::strcmp(one.name, name) == 0) {
      *function = per_thread ? one.own : one.legacy;
      return CUDA_SUCCESS;
    }
  *function = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
