#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/buffer.hpp"
#include "cuda/cuda_handles.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// What a host thread does and waits for while its clock runs.
enum class Call {
  launch,       ///< The call that launches an empty kernel.
  kernel_sync,  ///< A kernel that writes a word, until cudaStreamSynchronize returns.
  kernel_spin,  ///< The same, until the host sees the word.
  copy_submit,  ///< The call of cudaMemcpyAsync.
  copy_sync,    ///< A copy, until cudaStreamSynchronize returns.
  copy_spin,    ///< A copy to the host, until the host sees its last byte.
};

/// A call and its message: a copy's bytes, or the word that a kernel writes to whichever
/// of the places is host memory.
struct CallSpec {
  Call call;
  PlaceSpec source;
  PlaceSpec destination;
  std::size_t bytes;
  int device;
};

/// How long a host thread takes to make a GPU do something small.
class CallProbe {
 public:
  /// Takes buffers from the pool. The calling thread runs on `cpus` while it works for
  /// this probe; empty leaves it alone. Throws `Error`.
  CallProbe(std::shared_ptr<const Topology> topology, BufferPool& pool, CallSpec spec,
            std::vector<int> cpus);

  /// Seconds by the host's clock, one for each repetition. Each finds the stream empty.
  std::vector<double> run(int repetitions);

  /// Number of bytes of the message that did not arrive; of a kernel, of its word.
  std::size_t count_mismatches() const;

 private:
  bool copies() const noexcept { return spec_.call >= Call::copy_submit; }
  std::uint32_t& word() const;
  std::uint8_t& last_byte() const;
  double once();
  void reset();
  void submit();
  void wait();

  std::shared_ptr<const Topology> topology_;
  std::vector<int> cpus_;
  CallSpec spec_;
  std::shared_ptr<Buffer> source_, destination_;
  Stream stream_;
  std::uint32_t round_ = 0;  // what the word is to hold
};

}  // namespace lanescope
