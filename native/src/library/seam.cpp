#include "seam.hpp"

#include <cuda_runtime_api.h>

#include <new>

#include "lanescope/cuda_handles.hpp"

namespace lanescope::compression {

namespace {

Error told_of(const lanescope::Error& error) {
  const std::string& name = error.name();
  if (name == "bad block" && error.call() == "wait")
    return {ErrorCode::damaged, 0, error.detail() + "; send it again"};
  if (name == "bad block" || name == "bad stream")
    return {ErrorCode::damaged, 0, "this is no stream that can be read: " + error.detail()};
  if (name == "too late")
    return {ErrorCode::too_late, 0, error.detail() + "; look at what its streams wait for"};
  if (name == "no memory") return {ErrorCode::no_memory, error.code(), error.detail()};
  if (error.code() == 0) return {ErrorCode::bad_input, 0, error.detail()};
  const bool memory = error.code() == cudaErrorMemoryAllocation;
  return {memory ? ErrorCode::no_memory : ErrorCode::cuda, error.code(),
          error.call() + " failed: " + error.detail()};
}

}  // namespace

void throw_for_users() {
  try {
    throw;
  } catch (const lanescope::Error& error) {
    throw told_of(error);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::no_memory, 0, "the host has no memory left");
  }
}

void refuse(const std::string& sentence) {
  throw Error(ErrorCode::bad_input, 0, sentence);
}

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
  cudaPointerAttributes told{};
  lanescope::check(cudaPointerGetAttributes(&told, at), "cudaPointerGetAttributes");
  if (told.type != cudaMemoryTypeDevice && told.type != cudaMemoryTypeManaged)
    refuse(what + " does not lie in a GPU's memory; copy it there");
  return told.device;
}

void require_on(int gpu, std::span<const std::byte> memory, const std::string& what) {
  if (memory.empty()) return;
  const int where = gpu_of(memory.data(), what);
  if (where != gpu)
    refuse(what + " lies on GPU " + std::to_string(where) + ", not on GPU " + std::to_string(gpu) +
           "; move it there, or swap them");
}

}  // namespace lanescope::compression
