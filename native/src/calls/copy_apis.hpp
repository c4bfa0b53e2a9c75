#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "calls/memory_places.hpp"
#include "calls/ring.hpp"

/// The driver's calls that copy: what each is named, and how its arguments tell what it copies.
/// `kSuffix` ends the name in the driver's library, `kLeastVersion` is the first version of CUDA
/// whose call of that name has these arguments.
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

struct HostToDevice {
  static constexpr const char* kName = "cuMemcpyHtoD";
  static constexpr const char* kSuffix = "_v2";
  static constexpr int kLeastVersion = 3020;
  static void describe(Copy& copy, CUdeviceptr to, const void* from, std::size_t bytes) noexcept {
    copy.bytes = bytes;
    set_ends(copy, number_of(from), to);
  }
};

struct HostToDeviceAsync : HostToDevice {
  static constexpr const char* kName = "cuMemcpyHtoDAsync";
  static void describe(Copy& copy, CUdeviceptr to, const void* from, std::size_t bytes,
                       CUstream stream) noexcept {
    HostToDevice::describe(copy, to, from, bytes);
    copy.stream = stream_number(stream);
    copy.asynchronous = true;
  }
};

struct DeviceToHost {
  static constexpr const char* kName = "cuMemcpyDtoH";
  static constexpr const char* kSuffix = "_v2";
  static constexpr int kLeastVersion = 3020;
  static void describe(Copy& copy, void* to, CUdeviceptr from, std::size_t bytes) noexcept {
    copy.bytes = bytes;
    set_ends(copy, from, number_of(to));
  }
};

struct DeviceToHostAsync : DeviceToHost {
  static constexpr const char* kName = "cuMemcpyDtoHAsync";
  static void describe(Copy& copy, void* to, CUdeviceptr from, std::size_t bytes,
                       CUstream stream) noexcept {
    DeviceToHost::describe(copy, to, from, bytes);
    copy.stream = stream_number(stream);
    copy.asynchronous = true;
  }
};

struct DeviceToDevice {
  static constexpr const char* kName = "cuMemcpyDtoD";
  static constexpr const char* kSuffix = "_v2";
  static constexpr int kLeastVersion = 3020;
  static void describe(Copy& copy, CUdeviceptr to, CUdeviceptr from, std::size_t bytes) noexcept {
    copy.bytes = bytes;
    copy.asynchronous = true;  // the host does not wait for it
    set_ends(copy, from, to);
  }
};

struct DeviceToDeviceAsync : DeviceToDevice {
  static constexpr const char* kName = "cuMemcpyDtoDAsync";
  static void describe(Copy& copy, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                       CUstream stream) noexcept {
    DeviceToDevice::describe(copy, to, from, bytes);
    copy.stream = stream_number(stream);
  }
};

struct Any {
  static constexpr const char* kName = "cuMemcpy";
  static constexpr const char* kSuffix = "";
  static constexpr int kLeastVersion = 4000;
  static void describe(Copy& copy, CUdeviceptr to, CUdeviceptr from, std::size_t bytes) noexcept {
    copy.bytes = bytes;
    set_ends(copy, from, to);
  }
};

struct AnyAsync : Any {
  static constexpr const char* kName = "cuMemcpyAsync";
  static void describe(Copy& copy, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                       CUstream stream) noexcept {
    Any::describe(copy, to, from, bytes);
    copy.stream = stream_number(stream);
    copy.asynchronous = true;
  }
};

struct Peer {
  static constexpr const char* kName = "cuMemcpyPeer";
  static constexpr const char* kSuffix = "";
  static constexpr int kLeastVersion = 4000;
  static void describe(Copy& copy, CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                       std::size_t bytes) noexcept {
    copy.bytes = bytes;
    copy.asynchronous = true;
    set_ends(copy, from, to);
  }
};

struct PeerAsync : Peer {
  static constexpr const char* kName = "cuMemcpyPeerAsync";
  static void describe(Copy& copy, CUdeviceptr to, CUcontext there, CUdeviceptr from,
                       CUcontext here, std::size_t bytes, CUstream stream) noexcept {
    Peer::describe(copy, to, there, from, here, bytes);
    copy.stream = stream_number(stream);
  }
};

struct Rectangle {
  static constexpr const char* kName = "cuMemcpy2D";
  static constexpr const char* kSuffix = "_v2";
  static constexpr int kLeastVersion = 3020;
  static void describe(Copy& copy, const CUDA_MEMCPY2D* what) noexcept {
    copy.bytes = what->WidthInBytes * what->Height;
    set_places(copy, place_of_part(what->srcMemoryType, what->srcHost, what->srcDevice),
               place_of_part(what->dstMemoryType, what->dstHost, what->dstDevice));
  }
};

struct RectangleUnaligned : Rectangle {
  static constexpr const char* kName = "cuMemcpy2DUnaligned";
};

struct RectangleAsync : Rectangle {
  static constexpr const char* kName = "cuMemcpy2DAsync";
  static void describe(Copy& copy, const CUDA_MEMCPY2D* what, CUstream stream) noexcept {
    Rectangle::describe(copy, what);
    copy.stream = stream_number(stream);
    copy.asynchronous = true;
  }
};

struct Box {
  static constexpr const char* kName = "cuMemcpy3D";
  static constexpr const char* kSuffix = "_v2";
  static constexpr int kLeastVersion = 3020;
  static void describe(Copy& copy, const CUDA_MEMCPY3D* what) noexcept {
    copy.bytes = what->WidthInBytes * what->Height * what->Depth;
    set_places(copy, place_of_part(what->srcMemoryType, what->srcHost, what->srcDevice),
               place_of_part(what->dstMemoryType, what->dstHost, what->dstDevice));
  }
};

struct BoxAsync : Box {
  static constexpr const char* kName = "cuMemcpy3DAsync";
  static void describe(Copy& copy, const CUDA_MEMCPY3D* what, CUstream stream) noexcept {
    Box::describe(copy, what);
    copy.stream = stream_number(stream);
    copy.asynchronous = true;
  }
};

}  // namespace lanescope::calls
