// What stands in place of the driver's calls that copy: functions that carry what they can, and
// have the driver do the rest.

#include "boost/wrappers.hpp"

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "boost/batch.hpp"
#include "boost/carried_or.hpp"
#include "boost/settings.hpp"
#include "boost/stubs.hpp"
#include "intercept/captures.hpp"
#include "intercept/entries.hpp"
#include "intercept/hooks.hpp"
#include "intercept/in_place_of.hpp"

namespace lanescope::boost {

namespace {

using intercept::Entry;
using intercept::FirstForm;
using intercept::SecondForm;

CUdeviceptr number(const void* address) noexcept {
  return reinterpret_cast<CUdeviceptr>(address);
}

struct HostToDevice : SecondForm {
  static constexpr const char* kName = "cuMemcpyHtoD";
  static Request request(CUdeviceptr to, const void* from, std::size_t bytes) noexcept {
    return {to, number(from), bytes, nullptr, false, Direction::to_gpu};
  }
};
struct DeviceToHost : SecondForm {
  static constexpr const char* kName = "cuMemcpyDtoH";
  static Request request(void* to, CUdeviceptr from, std::size_t bytes) noexcept {
    return {number(to), from, bytes, nullptr, false, Direction::from_gpu};
  }
};
struct Either : FirstForm {
  static constexpr const char* kName = "cuMemcpy";
  static Request request(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) noexcept {
    return {to, from, bytes, nullptr, false, {}};
  }
};

/// The asynchronous form of a call: the same arguments, and a stream.
template <class Api, class Describe = decltype(&Api::request)>
struct OnStream;

template <class Api, class... Arguments>
struct OnStream<Api, Request (*)(Arguments...) noexcept> : Api {
  static Request request(Arguments... arguments, CUstream stream) noexcept {
    Request made = Api::request(arguments...);
    made.stream = stream;
    made.asynchronous = true;
    return made;
  }
};
struct HostToDeviceAsync : OnStream<HostToDevice> {
  static constexpr const char* kName = "cuMemcpyHtoDAsync";
};
struct DeviceToHostAsync : OnStream<DeviceToHost> {
  static constexpr const char* kName = "cuMemcpyDtoHAsync";
};
struct EitherAsync : OnStream<Either> {
  static constexpr const char* kName = "cuMemcpyAsync";
};

/// Of one call; `kVariant` 1 has a default stream for each thread.
template <class Api, int kVariant, class Describe = decltype(&Api::request)>
struct Wrapper;

template <class Api, int kVariant, class... Arguments>
struct Wrapper<Api, kVariant, Request (*)(Arguments...) noexcept> {
  using Function = CUresult (*)(Arguments...);
  static inline std::atomic<Function> original{nullptr};

  static CUresult call(Arguments... arguments) {
    const Function function = original.load(std::memory_order_relaxed);
    Request request = Api::request(arguments...);
    if (request.stream == nullptr)
      request.stream = kVariant == 0 ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
    if (are_batches_wanted())
      if (const auto result = gather_or_settle(request)) return *result;
    return carried_or(request, [&] { return function(arguments...); });
  }

  static void* in_place_of(void* function) noexcept {
    return intercept::swapped(original, &call, function);
  }
};

template <class Api>
constexpr Entry entry() {
  return {Api::kName,
          Api::kSuffix,
          Api::kLeastVersion,
          {Wrapper<Api, 0>::in_place_of, Wrapper<Api, 1>::in_place_of}};
}

constexpr Entry kCarried[] = {
    entry<HostToDevice>(), entry<HostToDeviceAsync>(),
    entry<DeviceToHost>(), entry<DeviceToHostAsync>(),
    entry<Either>(),       entry<EitherAsync>(),
};

}  // namespace

CUresult settle_before_driver() noexcept {
  return are_batches_wanted() ? settle() : CUDA_SUCCESS;
}

bool stand_before_driver(Direction direction) noexcept {
  return direction == Direction::to_gpu ? Wrapper<HostToDeviceAsync, 0>::original.load() != nullptr
                                        : Wrapper<DeviceToHostAsync, 0>::original.load() != nullptr;
}

}  // namespace lanescope::boost

namespace lanescope::intercept {

bool is_wanted() noexcept {
  return boost::settings().wanted;
}

void cuda_has_begun() noexcept {
  boost::prepare();
}

void* wrapped_entry(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept {
  if (const Entry* entry = entry_of(boost::kCarried, name, cuda_version))
    return in_place_of(*entry, per_thread, function);
  return wrapped_capture(name, cuda_version, per_thread, boost::behind_settling(name, function));
}

void* wrapped_symbol(std::string_view full, void* function) noexcept {
  const Symbol symbol = parsed(full);
  if (const Entry* entry = entry_of(boost::kCarried, symbol))
    return in_place_of(*entry, symbol.per_thread, function);
  return wrapped_capture(symbol, boost::behind_settling(full, function));
}

}  // namespace lanescope::intercept
