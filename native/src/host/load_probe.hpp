#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "chase_ring.hpp"
#include "cuda/buffer.hpp"
#include "cuda/host_array.hpp"
#include "host/topology.hpp"
#include "load_places.hpp"

namespace lanescope {

/// Single loads of 8 bytes by one host thread.
struct LoadSpec {
  PlaceSpec source;  ///< Host memory.
  LoadPlaces places;
  std::optional<ChaseOrder> chase;  ///< Each load needs the one before it; else none does.
  bool flushed;  ///< Whether all places are flushed from the caches before each sample.
  int device;    ///< Pins what is to be pinned.
};

/// What single loads of host memory take: a chain of them that each need the one before
/// (a chase), or as many at once as the CPU has in flight (a gather).
class LoadProbe {
 public:
  /// Allocates and fills; takes from the pool what only the driver allocates. The calling
  /// thread runs on `cpus` while it works for this probe; empty leaves it alone. Throws
  /// `Error`, with the name "no cache flush" when this CPU's caches cannot be flushed.
  LoadProbe(std::shared_ptr<const Topology> topology, BufferPool& pool, LoadSpec spec,
            std::vector<int> cpus);

  /// Seconds of `loads` loads, for each sample; a gather rounds up to whole passes over all
  /// places. A chase goes on where the one before it has ended.
  std::vector<double> run(int samples, std::size_t loads);

  /// Number of samples so far whose chase did not end where the ring says, or with a sum
  /// that was wrong.
  /// Throws `Error` when the memory no longer lies where it was asked for.
  std::size_t count_mismatches() const {
    array_.require_on_its_node();
    return mismatches_;
  }

  /// Changes one loaded word, for a test of the check: a chase then goes round one place.
  void spoil();

 private:
  void write();
  void flush() const;
  double sample(std::size_t loads);
  std::uint64_t load(std::size_t loads) const;
  std::uint64_t expected(std::size_t loads);
  std::uint64_t address_of_visit(std::size_t visit) const;
  std::byte* data() const noexcept { return static_cast<std::byte*>(array_.data()); }

  std::shared_ptr<const Topology> topology_;
  std::vector<int> cpus_;
  LoadSpec spec_;
  std::vector<std::uint32_t> visits_;  // of a chase
  HostArray array_;
  std::uint64_t sum_ = 0;  // of one pass of a gather
  std::size_t visit_ = 0;  // where the next chase begins
  std::size_t mismatches_ = 0;
};

}  // namespace lanescope
