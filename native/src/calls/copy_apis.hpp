#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "calls/memory_places.hpp"
#include "calls/ring.hpp"
#include "intercept/entries.hpp"

/// The driver's calls that copy: what each is named, and how its arguments tell what it copies.
namespace lanescope::calls {

/// Say where both ends lie and which GPU works.
inline void set_places(Copy& copy, MemoryPlace source, MemoryPlace destination) noexcept {
  copy.source_kind = source.kind;
  copy.destination_kind = destination.kind;
  copy.source_device = source.device;
  copy.destination_device = destination.device;
  copy.device = destination.device >= 0 ? destination.device : source.device;
  if (copy.device < 0) copy.device = current_device();
}

inline std::uint64_t number_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

inline void set_ends(Copy& copy, std::uint64_t source, std::uint64_t destination) noexcept {
  set_places(copy, place_of(source), place_of(destination));
}

inline MemoryPlace place_of_part(CUmemorytype kind, const void* host, CUdeviceptr device) noexcept {
  if (kind == CU_MEMORYTYPE_ARRAY) return {kArray, current_device()};
  return place_of(kind == CU_MEMORYTYPE_HOST ? number_of(host) : device);
}

/// The same of a rectangle or a box.
template <class Part>
void set_parts(Copy& copy, const Part& part) noexcept {
  set_places(copy, place_of_part(part.srcMemoryType, part.srcHost, part.srcDevice),
             place_of_part(part.dstMemoryType, part.dstHost, part.dstDevice));
}

using intercept::FirstForm;
using intercept::SecondForm;

/// The asynchronous form of a call: the same arguments, and a stream.
template <class Api, class Describe = decltype(&Api::describe)>
struct OnStream;

template <class Api, class... Arguments>
struct OnStream<Api, void (*)(Copy&, Arguments...) noexcept> : Api {
  static void describe(Copy& copy, Arguments... arguments, CUstream stream) noexcept {
    Api::describe(copy, arguments...);
    copy.stream = stream_number(stream);
    copy.asynchronous = true;
  }
};

struct HostToDevice : SecondForm {
  static constexpr const char* kName = "cuMemcpyHtoD";
  static void describe(Copy& copy, CUdeviceptr to, const void* from, std::size_t bytes) noexcept {
    copy.bytes = bytes;
    set_ends(copy, number_of(from), to);
  }
};
struct HostToDeviceAsync : OnStream<HostToDevice> {
  static constexpr const char* kName = "cuMemcpyHtoDAsync";
};

struct DeviceToHost : SecondForm {
  static constexpr const char* kName = "cuMemcpyDtoH";
  static void describe(Copy& copy, void* to, CUdeviceptr from, std::size_t bytes) noexcept {
    copy.bytes = bytes;
    set_ends(copy, from, number_of(to));
  }
};
struct DeviceToHostAsync : OnStream<DeviceToHost> {
  static constexpr const char* kName = "cuMemcpyDtoHAsync";
};

struct Any : FirstForm {
  static constexpr const char* kName = "cuMemcpy";
  static void describe(Copy& copy, CUdeviceptr to, CUdeviceptr from, std::size_t bytes) noexcept {
    copy.bytes = bytes;
    set_ends(copy, from, to);
  }
};
struct AnyAsync : OnStream<Any> {
  static constexpr const char* kName = "cuMemcpyAsync";
};

struct DeviceToDevice : SecondForm {
  static constexpr const char* kName = "cuMemcpyDtoD";
  static void describe(Copy& copy, CUdeviceptr to, CUdeviceptr from, std::size_t bytes) noexcept {
    Any::describe(copy, to, from, bytes);
    copy.asynchronous = true;  // the host does not wait for it
  }
};
struct DeviceToDeviceAsync : OnStream<DeviceToDevice> {
  static constexpr const char* kName = "cuMemcpyDtoDAsync";
};

/// Whether a call says by its name which ends are the host's, and by its third argument how much.
template <class Api>
constexpr bool kCanBeCounted =
    std::is_base_of_v<HostToDevice, Api> || std::is_base_of_v<DeviceToHost, Api> ||
    std::is_base_of_v<DeviceToDevice, Api>;

struct Peer : FirstForm {
  static constexpr const char* kName = "cuMemcpyPeer";
  static void describe(Copy& copy, CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                       std::size_t bytes) noexcept {
    DeviceToDevice::describe(copy, to, from, bytes);
  }
};
struct PeerAsync : OnStream<Peer> {
  static constexpr const char* kName = "cuMemcpyPeerAsync";
};

struct Rectangle : SecondForm {
  static constexpr const char* kName = "cuMemcpy2D";
  static void describe(Copy& copy, const CUDA_MEMCPY2D* what) noexcept {
    copy.bytes = what->WidthInBytes * what->Height;
    set_parts(copy, *what);
  }
};
struct RectangleUnaligned : Rectangle {
  static constexpr const char* kName = "cuMemcpy2DUnaligned";
};
struct RectangleAsync : OnStream<Rectangle> {
  static constexpr const char* kName = "cuMemcpy2DAsync";
};

struct Box : SecondForm {
  static constexpr const char* kName = "cuMemcpy3D";
  static void describe(Copy& copy, const CUDA_MEMCPY3D* what) noexcept {
    copy.bytes = what->WidthInBytes * what->Height * what->Depth;
    set_parts(copy, *what);
  }
};
struct BoxAsync : OnStream<Box> {
  static constexpr const char* kName = "cuMemcpy3DAsync";
};

}  // namespace lanescope::calls
