#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cuda/buffer.hpp"
#include "cuda/copy_set.hpp"
#include "cuda/cuda_handles.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// Copies that keep a path busy while something else is measured on it.
///
/// They do not wait behind a gate: what counts is that they run before the measurement
/// begins and still run when it has ended.
class CopyLoad {
 public:
  /// For a copy engine, between memory that the call need not wait for: not pageable, not
  /// managed. Takes buffers from the pool and fills them. Throws `Error`.
  CopyLoad(std::shared_ptr<const Topology> topology, BufferPool& pool, CopySpec copy);

  /// Waits for what still runs: its buffers go back to the pool.
  ~CopyLoad();
  CopyLoad(const CopyLoad&) = delete;
  CopyLoad& operator=(const CopyLoad&) = delete;

  /// Queues `copies` copies and returns when the first has ended and the others run.
  void start(int copies);

  /// Number of copies that have ended: all of them when the load is over.
  int completed() const;

  /// Waits for all copies; seconds of each, by events.
  std::vector<double> finish();

  /// Number of destination bytes that differ from their source.
  std::size_t count_mismatches() const;

 private:
  void fill(const Buffer& buffer, std::uint64_t seed) const;

  std::shared_ptr<const Topology> topology_;
  CopySpec spec_;
  std::shared_ptr<Buffer> source_, destination_;
  Stream stream_;
  std::vector<Event> events_;  // before the first copy and after each
  std::size_t copies_ = 0;     // of this start
};

}  // namespace lanescope
