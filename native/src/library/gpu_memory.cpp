#include "library/gpu_memory.hpp"

#include "cuda/cuda_handles.hpp"
#include "library/seam.hpp"

namespace lanescope::compression {

void require_gpu(int gpu) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  lanescope::forgive(status);
  if (status != cudaSuccess)
    throw Error(ErrorCode::cuda, status,
                std::string("a channel needs a GPU: ") + cudaGetErrorString(status));
  if (gpu < 0 || gpu >= count)
    refuse("there is no GPU " + std::to_string(gpu) + "; CUDA shows " + std::to_string(count) +
           ", counted from 0");
}

int gpu_of(const void* at, const std::string& what) {
  cudaPointerAttributes attributes{};
  lanescope::check(cudaPointerGetAttributes(&attributes, at), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged)
    refuse(what + " does not lie in a GPU's memory; copy it there");
  return attributes.device;
}

void require_on(int gpu, std::span<const std::byte> memory, const std::string& what) {
  if (memory.empty()) return;
  const int where = gpu_of(memory.data(), what);
  if (where != gpu)
    refuse(what + " lies on GPU " + std::to_string(where) + ", not on GPU " + std::to_string(gpu) +
           "; move it there, or swap them");
}

}  // namespace lanescope::compression
