// A libcupti for tests: no GPU, the same functions, records as its headers lay them out. A test
// program calls mock_* where a real one would call CUDA. MOCK_CUPTI_FAIL="function:code" makes a
// function fail, MOCK_CUPTI_EXIT="code" ends the program while it hands over a buffer,
// MOCK_CUPTI_FLUSH_MS="milliseconds" makes every flush last so long.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum { kMemcpy = 1, kMemset = 2, kDriver = 4, kRuntime = 5, kKernel = 10, kUnified = 25 };

struct alignas(8) Copy {
  uint32_t kind;
  uint8_t copy_kind, source, destination, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, pad;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph, channel, channel_type;
  uint8_t device_launched, pad2[3];
  uint64_t count;
};
struct alignas(8) Api {
  uint32_t kind, id;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};
struct alignas(8) Kernel {
  uint32_t kind, registers;
  uint32_t partitions[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t shape[6], shared[2];
  uint32_t local[2], correlation;
  int64_t grid;
  const char* name;
  char rest[120];
};
struct alignas(8) Unified {
  uint32_t kind, counter;
  uint64_t value, start, end, address;
  uint32_t source, destination, stream, process, flags, pad;
  uint64_t processors[5];
};

using Requested = void (*)(uint8_t**, size_t*, size_t*);
using Completed = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);

struct CallData {
  uint32_t site;
  const char* name;
  const void* arguments;
  int* result;
  const char* symbol;
  void* context;
  uint32_t context_number;
  uint64_t* own;
  uint32_t correlation;
};
using Called = void (*)(void*, int, uint32_t, const void*);

/// A mutex that a child takes for free, which has one thread: the parent's may have held it.
class Mutex {
 public:
  void lock() {
    if (syscall(SYS_getpid) == owner_) mutex_.lock();
  }
  void unlock() {
    if (syscall(SYS_getpid) == owner_) mutex_.unlock();
  }

 private:
  const long owner_ = syscall(SYS_getpid);
  std::mutex mutex_;
};

Mutex mutex;
Requested requested;
Completed completed;
bool enabled[64];
constexpr int kOneSubscriberOnly = 39;
bool subscribed;
bool driver_calls[1000], runtime_calls[1000];
bool driver_callbacks[1000], runtime_callbacks[1000];
Called called;
std::atomic<int> flushes_begun, flushes;
uint8_t* buffer;
size_t capacity, used, dropped;
uint32_t correlation, thread = 4242;
int not_initialised = 1;  // answers to the first configuration, which comes within cuInit

int failing(const char* function) {
  const char* wish = std::getenv("MOCK_CUPTI_FAIL");
  const size_t length = std::strlen(function);
  if (wish == nullptr || std::strncmp(wish, function, length) != 0 || wish[length] != ':') return 0;
  return std::atoi(wish + length + 1);
}

size_t size_of(uint32_t kind) {
  switch (kind) {
    case kMemcpy:
      return sizeof(Copy);
    case kDriver:
    case kRuntime:
      return sizeof(Api);
    case kKernel:
      return sizeof(Kernel);
    default:
      return sizeof(Unified);
  }
}

void deliver() {
  if (buffer == nullptr) return;
  uint8_t* full = buffer;
  buffer = nullptr;
  completed(nullptr, 0, full, capacity, used);
}

void put(const void* record, size_t size) {
  const std::lock_guard lock(mutex);
  if (buffer != nullptr && used + size > capacity) deliver();
  if (buffer == nullptr) {
    size_t most = 0;
    if (requested != nullptr) requested(&buffer, &capacity, &most);
    used = 0;
  }
  if (buffer == nullptr) {
    ++dropped;
    return;
  }
  std::memcpy(buffer + used, record, size);
  used += size;
}

uint64_t (*own_clock)();

uint64_t now() {
  if (own_clock != nullptr) return own_clock();
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

}  // namespace

API int cuptiGetVersion(uint32_t* version) {
  *version = 130001;
  return 0;
}
API int cuptiGetResultString(int, const char** text) {
  *text = "MOCK_ERROR";
  return 0;
}
API int cuptiSubscribe(void*, void* callback, void*) {
  if (subscribed) return kOneSubscriberOnly;
  called = reinterpret_cast<Called>(callback);
  const int code = failing("cuptiSubscribe");
  subscribed = code == 0;
  return code;
}
API int cuptiUnsubscribe(void*) {
  called = nullptr;
  subscribed = false;
  return 0;
}
API int cuptiSubscribe_v2(void* subscriber, void* callback, void* data, void* params) {
  const int code = cuptiSubscribe(subscriber, callback, data);
  if (code != 0) std::strcpy(static_cast<char**>(params)[2], "CUPTI for another");
  return code;
}
API int cuptiActivitySetAttribute(int, size_t*, void*) {
  return 0;
}
API int cuptiSetThreadIdType(int) {
  return 0;
}
API int cuptiActivityRegisterCallbacks(Requested first, Completed second) {
  requested = first;
  completed = second;
  return failing("cuptiActivityRegisterCallbacks");
}
API int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  own_clock = clock;
  return 0;
}
API int cuptiActivityEnable(int kind) {
  enabled[kind] = true;
  return failing("cuptiActivityEnable");
}
API int cuptiActivityDisable(int kind) {
  enabled[kind] = false;
  return 0;
}
API int cuptiActivityEnableDriverApi(uint32_t id, uint8_t on) {
  driver_calls[id] = on != 0 && failing("cuptiActivityEnableDriverApi") == 0;
  return failing("cuptiActivityEnableDriverApi");
}
API int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t on) {
  runtime_calls[id] = on != 0;
  return 0;
}
API int cuptiEnableCallback(uint32_t on, void*, int domain, uint32_t id) {
  (domain == 1 ? driver_callbacks : runtime_callbacks)[id] = on != 0;
  return failing("cuptiEnableCallback");
}
API int cuptiGetCallbackName(int domain, uint32_t id, const char** name) {
  if (domain == 1 && id == 277)
    *name = "cuMemcpyHtoDAsync_v2";
  else if (domain == 1 && id == 280)
    *name = "cuMemSetAccess";
  else if (domain == 2 && id == 41)
    *name = "cudaMemcpyAsync_v3020";
  else if (domain == 1 && id == 307)
    *name = "cuLaunchKernel";
  else if (id < 300)
    *name = "cuSomethingElse";
  else
    return 1;
  return 0;
}
API int cuptiActivityConfigureUnifiedMemoryCounter(void*, uint32_t) {
  return not_initialised-- > 0 ? 15 : failing("cuptiActivityConfigureUnifiedMemoryCounter");
}
API int cuptiActivityGetNextRecord(uint8_t* from, size_t valid, uint8_t** record) {
  uint8_t* next =
      *record == nullptr ? from : *record + size_of(*reinterpret_cast<uint32_t*>(*record));
  if (next >= from + valid) return 12;
  *record = next;
  return failing("cuptiActivityGetNextRecord");
}
API int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* count) {
  if (const char* code = std::getenv("MOCK_CUPTI_EXIT")) std::exit(std::atoi(code));
  *count = dropped;
  dropped = 0;
  return 0;
}
API int cuptiActivityFlushAll(uint32_t) {
  ++flushes_begun;
  if (const char* ms = std::getenv("MOCK_CUPTI_FLUSH_MS")) usleep(1000 * std::atoi(ms));
  {
    const std::lock_guard lock(mutex);
    deliver();
  }
  ++flushes;
  return 0;
}

// ---- what a program does

/// The program begins to trace itself, as PyTorch's profiler does.
API int mock_profile() {
  const int code = cuptiSubscribe(nullptr, nullptr, nullptr);
  if (code != 0) return code;
  return cuptiActivityRegisterCallbacks(
      [](uint8_t** place, size_t* size, size_t* most) {
        *size = 1 << 16;
        *most = 0;
        *place = static_cast<uint8_t*>(std::malloc(*size));
      },
      [](void*, uint32_t, uint8_t*, size_t, size_t) {});
}

API void mock_copies(uint32_t count, uint64_t bytes, int copy_kind, int asynchronous, int stream) {
  for (uint32_t number = 0; number < count; ++number) {
    const uint64_t start = now();
    ++correlation;
    if (enabled[kMemcpy]) {
      Copy copy{};
      copy.kind = kMemcpy;
      copy.copy_kind = static_cast<uint8_t>(copy_kind);
      copy.source = copy_kind == 1 ? 2 : 3;
      copy.destination = copy_kind == 1 ? 3 : 2;
      copy.flags = static_cast<uint8_t>(asynchronous);
      copy.bytes = bytes;
      copy.start = start + 100;
      copy.end = start + 200;
      copy.device = 1;
      copy.context = 1;
      copy.stream = static_cast<uint32_t>(stream);
      copy.correlation = correlation;
      copy.count = 1;
      put(&copy, sizeof copy);
    }
    if (driver_calls[277]) {
      const Api call{kDriver, 277, start + 10, start + 50, 1, thread, correlation, 0};
      put(&call, sizeof call);
    }
    if (runtime_calls[41]) {
      const Api call{kRuntime, 41, start + 5, start + 60, 1, thread, correlation, 0};
      put(&call, sizeof call);
    }
  }
}

/// A call of the runtime's (41, cudaMemcpyAsync) with the driver's in it (277, host to device),
/// and the copy that it asks for. `result` is the call's: copies are of those that succeed.
API void mock_copy_of(void* destination, const void* source, size_t bytes, int result) {
  struct {
    const void *destination, *source;
    size_t bytes;
    int kind;
    void* stream;
  } outer{destination, source, bytes, 1, nullptr};
  struct {
    const void *destination, *source;
    size_t bytes;
    void* stream;
  } inner{destination, source, bytes, nullptr};
  const uint32_t number = correlation + 1;
  for (uint32_t site = 0; site < 2 && called != nullptr; ++site) {
    CallData data{site, "", &inner, &result, "", nullptr, 1, nullptr, number};
    if (driver_callbacks[277]) called(nullptr, 1, 277, &data);
    data.arguments = &outer;
    if (runtime_callbacks[41]) called(nullptr, 2, 41, &data);
  }
  if (result == 0)
    mock_copies(1, bytes, 1, 1, 7);
  else
    ++correlation;
}

uint32_t context_number = 1;
bool per_thread = false;

/// Calls of the driver's that follow are made in another context.
API void mock_context(uint32_t number) {
  context_number = number;
}

/// They are those with a default stream for each thread.
API void mock_per_thread(int on) {
  per_thread = on != 0;
}

/// A call of the driver's that copies back, asynchronously (279; 422 for each thread) or not (278).
API void mock_copy_back(void* destination, const void* source, size_t bytes, int asynchronous,
                        void* stream) {
  struct {
    const void *destination, *source;
    size_t bytes;
    void* stream;
  } arguments{destination, source, bytes, stream};
  const uint32_t id = asynchronous == 0 ? 278 : per_thread ? 422 : 279;
  int result = 0;
  CallData data{1, "", &arguments, &result, "", nullptr, context_number, nullptr, correlation + 1};
  if (called != nullptr && driver_callbacks[id]) called(nullptr, 1, id, &data);
  mock_copies(1, bytes, 2, asynchronous, 7);
}

/// A call of the driver's with a stream alone.
void call_of_stream(uint32_t id, void* stream) {
  void* arguments = stream;
  int result = 0;
  CallData data{1, "", &arguments, &result, "", nullptr, context_number, nullptr, ++correlation};
  if (called != nullptr && driver_callbacks[id]) called(nullptr, 1, id, &data);
}

/// A call that has waited for a stream (126; 440 for each thread), or for all of the context (17).
API void mock_wait(void* stream, int all) {
  call_of_stream(all != 0 ? 17 : per_thread ? 440 : 126, stream);
}

/// The runtime's wait for all of a device (165), by a call of the driver's that has no name here.
API void mock_wait_for_device() {
  int result = 0;
  CallData data{1, "", nullptr, &result, "", nullptr, context_number, nullptr, ++correlation};
  if (called != nullptr && runtime_callbacks[165]) called(nullptr, 2, 165, &data);
}

API void mock_destroy(void* stream) {
  call_of_stream(326, stream);
}

API void mock_managed(int kind, uint64_t value, uint64_t address, uint32_t source,
                      uint32_t destination) {
  if (!enabled[kUnified]) return;
  Unified counter{};
  counter.kind = kUnified;
  counter.counter = static_cast<uint32_t>(kind);
  counter.value = value;
  counter.address = address;
  counter.start = now();
  counter.end = counter.start + 10;
  counter.source = source;
  counter.destination = destination;
  put(&counter, sizeof counter);
}

API void mock_kernel(const char* name) {
  if (!enabled[kKernel]) return;
  Kernel kernel{};
  kernel.kind = kKernel;
  kernel.start = now();
  kernel.end = kernel.start + 1000;
  kernel.name = name;
  kernel.correlation = ++correlation;
  put(&kernel, sizeof kernel);
  if (!driver_calls[307]) return;
  const Api call{kDriver, 307, kernel.start - 20, kernel.start - 10, 1, thread, correlation, 0};
  put(&call, sizeof call);
}

API void mock_migration(uint64_t bytes) {
  if (!enabled[kUnified]) return;
  Unified counter{};
  counter.kind = kUnified;
  counter.counter = 1;
  counter.value = bytes;
  counter.start = now();
  counter.end = counter.start + 10;
  counter.source = 0xFFFFFFFF;
  counter.destination = 3;
  put(&counter, sizeof counter);
}

/// A copy whose call, of this thread, lasts as long as a call of the program's.
API void mock_copy_around(void (*call)(), uint64_t bytes) {
  const uint64_t start = now();
  call();
  const uint64_t end = now();
  const auto here = static_cast<uint32_t>(syscall(SYS_gettid));
  ++correlation;
  if (!enabled[kMemcpy]) return;
  Copy copy{};
  copy.kind = kMemcpy;
  copy.copy_kind = 1;
  copy.source = 2;
  copy.destination = 3;
  copy.bytes = bytes;
  copy.start = end + 100;
  copy.end = end + 1100;
  copy.correlation = correlation;
  copy.count = 1;
  put(&copy, sizeof copy);
  if (!runtime_calls[41]) return;
  const Api record{kRuntime, 41, start, end, 1, here, correlation, 0};
  put(&record, sizeof record);
}

API void mock_unfinished_copy() {
  Copy copy{};
  copy.kind = kMemcpy;
  copy.correlation = ++correlation;
  put(&copy, sizeof copy);
}

API void mock_thread(uint32_t number) {
  thread = number;
}
API void mock_drop(size_t records) {
  dropped += records;
}
API int mock_flushes_begun() {
  return flushes_begun;
}
API int mock_flushes() {
  return flushes;
}
API int mock_migrations_enabled() {
  return enabled[kUnified];
}
API int mock_calls_enabled() {
  int sum = 0;
  for (int id = 0; id < 1000; ++id) sum += driver_calls[id] + runtime_calls[id];
  return sum;
}
