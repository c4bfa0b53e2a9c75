#include "boost/copy.hpp"

#include <array>

#include "boost/driver.hpp"

namespace lanescope::boost {

namespace {

constexpr int kAttributeMps = 133;  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED of newer headers

/// What the driver says of an address.
struct Place {
  unsigned kind = 0;  // 0: the driver does not know it
  unsigned managed = 0;
  int device = -1;
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  CUcontext context = nullptr;

  [[nodiscard]] bool is_pageable() const noexcept { return kind == 0 && managed == 0; }
  [[nodiscard]] bool is_device() const noexcept {
    return kind == CU_MEMORYTYPE_DEVICE && managed == 0;
  }
};

std::optional<Place> place_at(CUdeviceptr address) noexcept {
  Place found;
  std::array names{CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_CONTEXT};
  std::array<void*, 6> values{&found.kind,  &found.managed, &found.device,
                              &found.begin, &found.bytes,   &found.context};
  if (driver().cuPointerGetAttributes(names.size(), names.data(), values.data(), address) !=
      CUDA_SUCCESS)
    return {};
  return found;
}

/// As `place_at` would say, with fewer questions: it is called for each tiny copy.
bool is_pageable_at(CUdeviceptr address) noexcept {
  Place found;
  std::array names{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  std::array<void*, 2> values{&found.kind, &found.managed};
  return driver().cuPointerGetAttributes(names.size(), names.data(), values.data(), address) ==
             CUDA_SUCCESS &&
         found.is_pageable();
}

/// @return whether all bytes from an address on are of the context's GPU, in one allocation.
bool is_of(const Context& context, const Place& place, CUdeviceptr address,
           std::size_t bytes) noexcept {
  return place.device == context.device &&
         (place.context == nullptr || place.context == context.handle) &&
         Allocation{place.begin, place.bytes}.holds(address, bytes);
}

/// @return whether a stream is one of the context's: the two default ones are of any.
bool is_stream_of(const Context& context, CUstream stream) noexcept {
  if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return true;
  CUcontext of = nullptr;
  return driver().cuStreamGetCtx(stream, &of) == CUDA_SUCCESS && of == context.handle;
}

bool is_captured(CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver().cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

std::optional<Context> current_context() noexcept {
  Context found;
  const Driver& cuda = driver();
  if (cuda.cuCtxGetCurrent(&found.handle) != CUDA_SUCCESS || found.handle == nullptr ||
      cuda.cuCtxGetId(found.handle, &found.id) != CUDA_SUCCESS ||
      cuda.cuCtxGetDevice(&found.device) != CUDA_SUCCESS)
    return {};
  return found;
}

bool is_pageable(CUdeviceptr memory, std::size_t bytes) noexcept {
  return is_pageable_at(memory) && is_pageable_at(memory + bytes - 1);
}

std::optional<Allocation> allocation_of(const Context& context, CUdeviceptr address,
                                        std::size_t bytes) noexcept {
  const std::optional<Place> place = place_at(address);
  if (!place || !place->is_device() || !is_of(context, *place, address, bytes)) return {};
  return Allocation{place->begin, place->bytes};
}

bool is_shared_by_mps(CUdevice device) noexcept {
  int shared = 0;
  return driver().cuDeviceGetAttribute(&shared, static_cast<CUdevice_attribute>(kAttributeMps),
                                       device) == CUDA_SUCCESS &&
         shared != 0;
}

Understood understood(const Request& request, const Context& context) noexcept {
  const std::optional<Place> to = place_at(request.to), from = place_at(request.from);
  if (!to || !from) return {{}, Reason::context};
  if (to->is_device() == from->is_device()) return {};
  const Direction direction = to->is_device() ? Direction::to_gpu : Direction::from_gpu;
  if (request.direction && *request.direction != direction) return {};
  const bool inwards = direction == Direction::to_gpu;
  const CUdeviceptr memory = inwards ? request.from : request.to;
  const CUdeviceptr device = inwards ? request.to : request.from;
  if (!is_pageable(memory, request.bytes)) return {{}, Reason::not_pageable};
  if (!is_of(context, inwards ? *to : *from, device, request.bytes) ||
      !is_stream_of(context, request.stream))
    return {{}, Reason::context};
  if (is_captured(request.stream)) return {{}, Reason::captured};
  return {Copy{direction, reinterpret_cast<char*>(memory), device, request.bytes, request.stream,
               request.asynchronous},
          {}};
}

}  // namespace lanescope::boost
