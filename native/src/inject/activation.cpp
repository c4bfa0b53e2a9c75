#include "inject/activation.hpp"

#include <cstring>
#include <utility>

#include "inject/call_names.hpp"
#include "inject/copy_call.hpp"

namespace lanescope::inject {

namespace {

constexpr CUpti_CallbackId kMostCalls = 4096;  // more than any version has
constexpr int kMostMissing = 64;               // numbers without a name, one after the other

}  // namespace

bool Activation::begin(const Callbacks& callbacks) {
  if (!subscribe(callbacks.called, "traces this program already")) return false;
  // Records come without a subscription. Whoever holds one keeps a profiler that the program
  // starts later, PyTorch's say, from working.
  if (!settings_.addresses) cupti_.cuptiUnsubscribe(subscriber_);
  set_attributes(callbacks);
  if (succeeded("cuptiActivityRegisterCallbacks",
                cupti_.cuptiActivityRegisterCallbacks(callbacks.requested, callbacks.completed)) &&
      enable_kinds()) {
    if (settings_.addresses) enable_callbacks();
    return true;
  }
  if (settings_.addresses) cupti_.cuptiUnsubscribe(subscriber_);
  return false;
}

void Activation::end(const Callbacks& callbacks) {
  if (!is_alone(callbacks.called)) return;
  enable_calls([](std::string_view) { return true; }, false);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER,
        CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_RUNTIME})
    cupti_.cuptiActivityDisable(kind);
  if (settings_.addresses) cupti_.cuptiUnsubscribe(subscriber_);
}

bool Activation::is_alone(CUpti_CallbackFunc called) {
  if (settings_.addresses) return true;  // what holds a subscription is
  if (!subscribe(called, "took over: what the program did after that is missing")) return false;
  cupti_.cuptiUnsubscribe(subscriber_);
  return true;
}

bool Activation::subscribe(CUpti_CallbackFunc called, const char* does) {
  char other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
  CUptiResult result;
  if (cupti_.cuptiSubscribe_v2 != nullptr) {
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "lanescope";
    params.oldSubscriberName = other;
    params.oldSubscriberSize = sizeof other;
    result = cupti_.cuptiSubscribe_v2(&subscriber_, called, nullptr, &params);
  } else {
    result = cupti_.cuptiSubscribe(&subscriber_, called, nullptr);
  }
  if (result != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    return succeeded("cuptiSubscribe", result);
  other[sizeof other - 1] = '\0';
  const std::string name = other[0] == '\0' ? "" : " (" + std::string(other) + ")";
  notes_.push_back("another profiler" + name + " " + does);
  return false;
}

void Activation::enable_callbacks() {
  CUptiResult result =
      cupti_.cuptiEnableCallback == nullptr ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
  for (std::size_t i = 0; i < kCopyCallCount && result == CUPTI_SUCCESS; ++i)
    result = cupti_.cuptiEnableCallback(1, subscriber_, kCopyCalls[i].domain, kCopyCalls[i].id);
  for (std::size_t i = 0; settings_.contents && i < kWaitCallCount && result == CUPTI_SUCCESS; ++i)
    result = cupti_.cuptiEnableCallback(1, subscriber_, kWaitCalls[i].domain, kWaitCalls[i].id);
  succeeded("tracing of addresses", result);
}

void Activation::set_attributes(const Callbacks& callbacks) {
  std::uint8_t zeroed = 1;
  std::size_t size = sizeof zeroed;
  // Before any record is made. CUPTI's own clock goes back and ahead with the system's.
  if (cupti_.cuptiActivityRegisterTimestampCallback != nullptr)
    cupti_.cuptiActivityRegisterTimestampCallback(callbacks.clock);
  cupti_.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
  if (cupti_.cuptiSetThreadIdType != nullptr)
    cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
}

bool Activation::enable_kinds() {
  std::vector<std::pair<CUpti_ActivityKind, const char*>> kinds;
  if (settings_.copies) {
    kinds.emplace_back(CUPTI_ACTIVITY_KIND_MEMCPY, "tracing of copies");
    kinds.emplace_back(CUPTI_ACTIVITY_KIND_MEMCPY2, "tracing of copies between GPUs");
  }
  if (settings_.memsets) kinds.emplace_back(CUPTI_ACTIVITY_KIND_MEMSET, "tracing of memsets");
  if (settings_.kernels)
    kinds.emplace_back(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "tracing of kernels");
  bool any = settings_.migrations;
  for (const auto& [kind, what] : kinds)
    if (succeeded(what, cupti_.cuptiActivityEnable(kind))) any = true;
  return any;
}

bool Activation::begin_rest() {
  if (calls_pending_) calls_pending_ = !settled("tracing of calls", enable_calls(is_worth_tracing));
  if (migrations_pending_)
    migrations_pending_ = !settled("tracing of migrations", enable_migrations());
  if (launches_pending_)
    launches_pending_ = !settled("tracing of launches", enable_calls(is_launch));
  return !calls_pending_ && !launches_pending_ && !migrations_pending_;
}

void Activation::want_launches() {
  if (!settings_.kernels || !settings_.calls || std::exchange(launches_begun_, true)) return;
  launches_pending_ = true;
}

CUptiResult Activation::enable_calls(bool (*wanted)(std::string_view), bool on) {
  if (cupti_.cuptiGetCallbackName == nullptr || cupti_.cuptiActivityEnableDriverApi == nullptr ||
      cupti_.cuptiActivityEnableRuntimeApi == nullptr)
    return CUPTI_ERROR_NOT_SUPPORTED;
  const std::pair<CUpti_CallbackDomain, CUptiResult(CUPTIAPI*)(CUpti_CallbackId, std::uint8_t)>
      interfaces[] = {{CUPTI_CB_DOMAIN_DRIVER_API, cupti_.cuptiActivityEnableDriverApi},
                      {CUPTI_CB_DOMAIN_RUNTIME_API, cupti_.cuptiActivityEnableRuntimeApi}};
  for (const auto& [domain, enable] : interfaces) {
    int missing = 0;
    for (CUpti_CallbackId id = 1; id < kMostCalls && missing < kMostMissing; ++id) {
      const char* name = nullptr;
      const bool known =
          cupti_.cuptiGetCallbackName(domain, id, &name) == CUPTI_SUCCESS && name != nullptr;
      missing = known ? 0 : missing + 1;
      if (!known || !wanted(name)) continue;
      if (const CUptiResult result = enable(id, on ? 1 : 0); result != CUPTI_SUCCESS) return result;
    }
  }
  return CUPTI_SUCCESS;
}

CUptiResult Activation::enable_migrations() {
  if (cupti_.cuptiActivityConfigureUnifiedMemoryCounter == nullptr)
    return CUPTI_ERROR_NOT_SUPPORTED;
  CUpti_ActivityUnifiedMemoryCounterConfig counters[5]{};
  counters[0].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
  counters[1].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH;
  counters[2].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD;
  counters[3].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT;
  counters[4].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT;
  for (auto& counter : counters) {
    counter.scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES;
    counter.enable = 1;
  }
  CUptiResult result = cupti_.cuptiActivityConfigureUnifiedMemoryCounter(counters, 5);
  if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_NOT_INITIALIZED)  // no faults here
    result = cupti_.cuptiActivityConfigureUnifiedMemoryCounter(counters, 3);
  if (result != CUPTI_SUCCESS) return result;
  return cupti_.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
}

bool Activation::settled(const char* what, CUptiResult result) {
  if (result == CUPTI_ERROR_NOT_INITIALIZED) return false;
  succeeded(what, result);
  return true;
}

std::vector<std::string> Activation::take_notes() {
  return std::exchange(notes_, {});
}

bool Activation::succeeded(const char* what, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return true;
  notes_.push_back(std::string(what) + " failed: " + cupti_.text(result));
  return false;
}

}  // namespace lanescope::inject
