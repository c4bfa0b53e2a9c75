#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "cuda/cuda_handles.hpp"
#include "watch/probed_link.hpp"

namespace lanescope::watch {

/// Throws `Error` unless CUDA can use a device beside the program that is watched: named
/// "exclusive GPU" where one process alone may have it, and a probe would shut the program out.
/// Makes no context.
void require_shared_gpu(int device);

/// The link of a GPU, and copies between pinned memory and its own.
///
/// The stream has the lowest priority; CUDA promises nothing of that for copies, but it costs
/// nothing either. The end of a copy is seen by `cudaStreamQuery`, again and again. That reads a
/// word in host memory which the GPU writes after each copy anyway: nothing but the copy is sent
/// over the link, where a flag of our own would be a second write from the GPU for copies to
/// it. And unlike `cudaStreamSynchronize` it can be left at any time.
class CudaLink : public ProbedLink {
 public:
  /// Allocates `bytes` on both sides and copies them once each way. Throws `Error`, also as
  /// `require_shared_gpu` does. Makes a context, which takes memory of the GPU.
  CudaLink(int device, std::size_t bytes);

  /// Waits a second at most for a copy that was left: of a GPU that does not answer the memory
  /// is not given back.
  ~CudaLink() override;
  CudaLink(const CudaLink&) = delete;
  CudaLink& operator=(const CudaLink&) = delete;

  void enter() override;
  std::uint64_t now_ns() override;
  std::optional<std::uint64_t> copy(ProbeWay way, std::size_t bytes,
                                    const Stopping& stopping) override;

 private:
  struct Parts {
    Parts(int device, std::size_t bytes);

    Stream stream;
    DriverMemory host;
    DeviceMemory device;
  };

  void warm_up(std::size_t bytes);
  bool is_idle() const;

  int device_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lanescope::watch
