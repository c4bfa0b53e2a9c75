#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/buffer.hpp"
#include "cuda/cuda_handles.hpp"
#include "cuda/graph.hpp"
#include "cuda/piece_layout.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// How pieces are handed to the GPU.
enum class Submission {
  single,  ///< A call of cudaMemcpyAsync for each.
  batch,   ///< One call of cudaMemcpyBatchAsync.
  graph,   ///< One launch of a graph of copies that wait for nothing.
  kernel,  ///< One kernel that copies them.
  mapped   ///< No copy: a kernel reads or writes them where they lie in host memory.
};

/// Equal pieces between a device and host memory that it can reach, each at an address
/// of its own.
struct PieceSpec {
  PlaceSpec source;
  PlaceSpec destination;
  std::size_t piece_bytes;
  std::size_t pieces;
  int device;
  Submission submission;
};

/// Seconds of each repetition by the host's clock, from before the first call on.
struct PieceTimes {
  std::vector<double> seconds;         ///< Until all pieces have arrived.
  std::vector<double> submit_seconds;  ///< Until the last call has returned.
};

/// Many small copies, handed over in one of several ways.
class PieceSet {
 public:
  /// Takes buffers from the pool, fills the source, spoils the destination and makes
  /// ready what the way of submission needs. The calling thread runs on `cpus` while
  /// it works for this set; empty leaves it alone. Throws `Error`.
  PieceSet(std::shared_ptr<const Topology> topology, BufferPool& pool, const PieceSpec& spec,
           std::vector<int> cpus);

  /// Moves all pieces so many times, one time after the other. The first run warms
  /// up with one more time that is left out. Throws `Error`.
  PieceTimes run(int repetitions);

  /// What differs from what should be there: bytes of the destination, gaps included,
  /// or where nothing is copied to the device, sums of parts of pieces.
  std::size_t count_mismatches();

  /// Flips one bit of a buffer: a check, after another run where it is in the source,
  /// must find it.
  void spoil(bool in_source, std::size_t byte);

 private:
  bool to_device() const { return spec_.destination.memory == Memory::device; }
  bool reads_in_place() const { return spec_.submission == Submission::mapped && to_device(); }
  void list_pieces();
  void make_graph();
  void make_table(BufferPool& pool);
  void submit() const;
  void submit_singly() const;
  void submit_batch() const;
  void submit_in_place() const;
  void run_once(PieceTimes& times) const;

  std::shared_ptr<const Topology> topology_;
  PieceSpec spec_;
  PieceLayout layout_;
  std::vector<int> cpus_;
  Stream stream_;
  std::shared_ptr<Buffer> source_, destination_, table_;
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;
  std::vector<std::size_t> sizes_;  // as the batched call wants them: all equal
  std::optional<GraphExec> graph_;
  bool warm_ = false;
};

}  // namespace lanescope
