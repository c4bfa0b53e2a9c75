#include "cuda/shared_memory.hpp"

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cuda/cuda_handles.hpp"
#include "cuda/driver_call.hpp"

namespace lanescope {

namespace {

struct MemoryCalls {
  DriverCall<decltype(cuMemCreate)> create{"cuMemCreate", 10020};
  DriverCall<decltype(cuMemRelease)> release{"cuMemRelease", 10020};
  DriverCall<decltype(cuMemExportToShareableHandle)> share{"cuMemExportToShareableHandle", 10020};
  DriverCall<decltype(cuMemImportFromShareableHandle)> attach{"cuMemImportFromShareableHandle",
                                                              10020};
  DriverCall<decltype(cuMemAddressReserve)> reserve{"cuMemAddressReserve", 10020};
  DriverCall<decltype(cuMemAddressFree)> free{"cuMemAddressFree", 10020};
  DriverCall<decltype(cuMemMap)> map{"cuMemMap", 10020};
  DriverCall<decltype(cuMemUnmap)> unmap{"cuMemUnmap", 10020};
  DriverCall<decltype(cuMemSetAccess)> set_access{"cuMemSetAccess", 10020};
  DriverCall<decltype(cuMemGetAllocationGranularity)> granularity{"cuMemGetAllocationGranularity",
                                                                  10020};
};

const MemoryCalls& memory_calls() {
  static const MemoryCalls known;
  return known;
}

CUmemAllocationHandleType handle_type(Sharing sharing) {
  return sharing == Sharing::fabric ? CU_MEM_HANDLE_TYPE_FABRIC
                                    : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

CUmemLocation location(int device) {
  CUmemLocation place{};
  place.type = CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = device;
  return place;
}

CUdeviceptr address(void* data) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(data));
}

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

/// Makes physical memory visible to a device at a new address.
void* mapped(CUmemGenericAllocationHandle allocation, std::size_t bytes, int device) {
  CUdeviceptr found = 0;
  memory_calls().reserve(&found, bytes, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  CUmemAccessDesc access{};
  access.location = location(device);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  bool is_mapped = false;
  try {
    memory_calls().map(found, bytes, std::size_t{0}, allocation, 0ULL);
    is_mapped = true;
    memory_calls().set_access(found, bytes, &access, std::size_t{1});
  } catch (const Error&) {
    if (is_mapped) static_cast<void>(memory_calls().unmap.tried(found, bytes));
    static_cast<void>(memory_calls().free.tried(found, bytes));
    throw;
  }
  return pointer(found);
}

void unmap(void* data, std::size_t bytes, unsigned long long allocation) {
  if (data != nullptr) {
    static_cast<void>(memory_calls().unmap.tried(address(data), bytes));
    static_cast<void>(memory_calls().free.tried(address(data), bytes));
  }
  if (allocation != 0) static_cast<void>(memory_calls().release.tried(allocation));
}

}  // namespace

SharedMemory::SharedMemory(int device, std::size_t bytes, Sharing sharing)
    : device_(device), bytes_(bytes), sharing_(sharing) {
  const ScopedDevice scope(device);
  check(cudaFree(nullptr), "cudaFree");  // the driver's calls need a context
  if (sharing == Sharing::ipc) {
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
    cudaIpcMemHandle_t found;
    const cudaError_t status = cudaIpcGetMemHandle(&found, data_);
    if (status != cudaSuccess) forgive(cudaFree(data_));
    check(status, "cudaIpcGetMemHandle");
    handle_.assign(reinterpret_cast<const char*>(&found), sizeof found);
    return;
  }
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = location(device);
  wanted.requestedHandleTypes = handle_type(sharing);
  std::size_t step = 0;
  memory_calls().granularity(&step, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  step = std::max<std::size_t>(step, 1);
  bytes_ = (bytes + step - 1) / step * step;
  CUmemGenericAllocationHandle allocation = 0;
  memory_calls().create(&allocation, bytes_, &wanted, 0ULL);
  allocation_ = allocation;
  try {
    if (sharing == Sharing::descriptor) {
      memory_calls().share(static_cast<void*>(&descriptor_), allocation, handle_type(sharing),
                           0ULL);
    } else {
      CUmemFabricHandle found{};
      memory_calls().share(static_cast<void*>(&found), allocation, handle_type(sharing), 0ULL);
      handle_.assign(reinterpret_cast<const char*>(&found), sizeof found);
    }
    data_ = mapped(allocation, bytes_, device);
  } catch (const Error&) {
    if (descriptor_ >= 0) close(descriptor_);
    unmap(nullptr, 0, allocation_);
    throw;
  }
}

SharedMemory::~SharedMemory() {
  if (descriptor_ >= 0) close(descriptor_);
  if (sharing_ != Sharing::ipc) {
    unmap(data_, bytes_, allocation_);
    return;
  }
  try {
    const ScopedDevice scope(device_);
    forgive(cudaFree(data_));
  } catch (const Error&) {  // the device is gone, and its memory with it
  }
}

AttachedMemory::AttachedMemory(int device, std::size_t bytes, Sharing sharing,
                               const std::string& handle, int descriptor)
    : device_(device), bytes_(bytes), sharing_(sharing) {
  const ScopedDevice scope(device);
  check(cudaFree(nullptr), "cudaFree");
  if (sharing == Sharing::ipc) {
    cudaIpcMemHandle_t found;
    if (handle.size() != sizeof found)
      throw Error("AttachedMemory", 0, "no handle", "it has another size");
    std::memcpy(&found, handle.data(), sizeof found);
    check(cudaIpcOpenMemHandle(&data_, found, cudaIpcMemLazyEnablePeerAccess),
          "cudaIpcOpenMemHandle");
    return;
  }
  CUmemFabricHandle fabric{};
  auto* shared = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  if (sharing == Sharing::fabric) {
    if (handle.size() != sizeof fabric)
      throw Error("AttachedMemory", 0, "no handle", "it has another size");
    std::memcpy(&fabric, handle.data(), sizeof fabric);
    shared = &fabric;
  }
  CUmemGenericAllocationHandle allocation = 0;
  memory_calls().attach(&allocation, shared, handle_type(sharing));
  allocation_ = allocation;
  try {
    data_ = mapped(allocation, bytes, device);
  } catch (const Error&) {
    unmap(nullptr, 0, allocation_);
    throw;
  }
}

AttachedMemory::~AttachedMemory() {
  if (sharing_ != Sharing::ipc) {
    unmap(data_, bytes_, allocation_);
    return;
  }
  try {
    const ScopedDevice scope(device_);
    forgive(cudaIpcCloseMemHandle(data_));
  } catch (const Error&) {  // the device is gone
  }
}

}  // namespace lanescope
