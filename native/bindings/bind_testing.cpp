#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "block_gaps.hpp"
#include "chase_ring.hpp"
#include "cuda/chunk_cursor.hpp"
#include "cuda/gate.hpp"
#include "cuda/peer.hpp"
#include "host/block_walk.hpp"
#include "host/cache_flush.hpp"
#include "host/host_buffer.hpp"
#include "host/host_kernels.hpp"
#include "pattern.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// Whether a gate that a throwing body leaves behind is open.
bool gate_opens_when_body_throws() {
  volatile int open = 0;
  try {
    const lanescope::OpenOnExit opener(open);
    throw std::runtime_error("body");
  } catch (const std::runtime_error&) {
  }
  return open == 1;
}

/// Throws behind a real gate, then runs the same stream and gate again.
void throw_behind_gate(int device) {
  lanescope::Gate gate(device);
  const lanescope::Stream stream(device);
  bool thrown = false;
  try {
    gate.run({&stream}, [] { throw std::runtime_error("body"); });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  if (!thrown) throw std::logic_error("the error behind the gate was lost");
  lanescope::wait_for(stream, 1.0);
  gate.run({&stream}, [] {});
}

/// Whether an impatient gate opens although nobody opens it.
bool gate_opens_late(double patience_s, double wait_s) {
  volatile int open = 0;
  const lanescope::OpenLate late(open, patience_s);
  std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
  return open == 1;
}

/// Whether two devices that reach each other do so again after a throw that passed the guard
/// which keeps them apart.
bool peer_access_survives_throw(int device, int peer) {
  lanescope::enable_peer(device, peer);
  try {
    lanescope::PeerAccessOff off;
    off.take(device, peer);
    throw std::runtime_error("body");
  } catch (const std::runtime_error&) {
  }
  const lanescope::ScopedDevice scope(device);
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
  lanescope::forgive(status);
  return status == cudaErrorPeerAccessAlreadyEnabled;
}

std::size_t mismatches_after_flip(std::size_t bytes, std::size_t flipped) {
  std::vector<std::uint64_t> words(bytes / 8 + 1);
  lanescope::fill_pattern(words.data(), bytes, 7);
  if (flipped < bytes) reinterpret_cast<std::uint8_t*>(words.data())[flipped] ^= 1;
  return lanescope::count_mismatches(words.data(), bytes, 7);
}

/// The byte offset of the next element for each element of a ring, as a chase at address 0 reads
/// it.
std::vector<std::uint64_t> ring_pointers(std::size_t bytes, std::size_t stride, bool random) {
  const auto order = random ? lanescope::ChaseOrder::random : lanescope::ChaseOrder::sequential;
  const auto places = lanescope::one_lap(bytes, stride);
  const auto visits = lanescope::ring_visits({places, order});
  std::vector<std::uint64_t> image(visits.size() * (stride / 8));
  lanescope::write_ring(image.data(), 0, places, visits);
  std::vector<std::uint64_t> next;
  for (std::size_t i = 0; i < visits.size(); ++i) next.push_back(image[i * (stride / 8)]);
  return next;
}

/// What the first repetitions leave out, as begin and end of each part.
std::vector<std::pair<std::size_t, std::size_t>> untouched_bytes(lanescope::BlockPattern pattern,
                                                                 std::uint64_t repetitions,
                                                                 std::size_t block_bytes,
                                                                 std::size_t span_bytes) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (const auto [begin, end] :
       lanescope::untouched_bytes(pattern, repetitions, block_bytes, span_bytes))
    parts.emplace_back(begin, end);
  return parts;
}

std::vector<std::uint32_t> ring_visits(std::size_t bytes, std::size_t stride, bool random) {
  const auto order = random ? lanescope::ChaseOrder::random : lanescope::ChaseOrder::sequential;
  return lanescope::ring_visits({lanescope::one_lap(bytes, stride), order});
}

/// The first `count` offsets of a walk over blocks.
std::vector<std::size_t> block_offsets(lanescope::BlockPattern pattern, std::size_t blocks,
                                       std::size_t step, std::size_t count) {
  auto walk = lanescope::walk_over(pattern, blocks, step);
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < count; ++i)
    offsets.push_back(std::visit([](auto& steps) { return steps.next(); }, walk));
  return offsets;
}

/// The first `loops` loops of one block over its chunks: offset and way.
std::vector<std::pair<std::size_t, int>> chunk_steps(std::size_t chunks, int ways, int repeats,
                                                     int loops) {
  lanescope::ChunkCursor cursor{0, 1, chunks, ways, repeats};
  std::vector<std::pair<std::size_t, int>> steps;
  for (long long i = 0; i < loops * cursor.per_loop(); ++i) {
    steps.emplace_back(cursor.offset, cursor.way);
    cursor.advance();
  }
  return steps;
}

/// What a pass over `count` numbers leaves: i and 2 * i are read.
std::vector<double> kernel_results(lanescope::Operation operation, bool streaming,
                                   std::size_t count) {
  struct alignas(64) Line {
    double numbers[8];
  };
  std::vector<Line> lines[3];
  for (auto& array : lines) array.resize(count / 8 + 1);
  double *a = lines[0][0].numbers, *b = lines[1][0].numbers, *c = lines[2][0].numbers;
  for (std::size_t i = 0; i < count; ++i) {
    b[i] = static_cast<double>(i);
    c[i] = static_cast<double>(2 * i);
  }
  const auto stores = streaming ? lanescope::Stores::streaming : lanescope::Stores::cached;
  lanescope::run_kernel(operation, stores, a, b, c, count);
  return {a, a + count};
}

/// Bytes on huge pages of a buffer that has been touched.
std::size_t huge_bytes(const lanescope::Topology& topology, std::size_t bytes, bool small) {
  const auto pages = small ? lanescope::Pages::small : lanescope::Pages::any;
  const lanescope::HostBuffer buffer(topology, bytes, 0, pages);
  buffer.touch();
  return buffer.huge_bytes();
}

}  // namespace

void bind_testing(nb::module_& module) {
  nb::module_ testing = module.def_submodule("testing", "Parts of the core that only tests reach.");
  testing.def("gate_opens_when_body_throws", &gate_opens_when_body_throws);
  testing.def("throw_behind_gate", &throw_behind_gate, "device"_a,
              nb::call_guard<nb::gil_scoped_release>());
  testing.def("gate_opens_late", &gate_opens_late, "patience_s"_a, "wait_s"_a);
  testing.def("peer_access_survives_throw", &peer_access_survives_throw, "device"_a, "peer"_a,
              nb::call_guard<nb::gil_scoped_release>());
  testing.def("pattern_word", &lanescope::pattern_word, "seed"_a, "index"_a);
  testing.def("mismatches_after_flip", &mismatches_after_flip, "bytes"_a, "flipped"_a);
  testing.def("ring_pointers", &ring_pointers, "bytes"_a, "stride"_a, "random"_a);
  testing.def("ring_visits", &ring_visits, "bytes"_a, "stride"_a, "random"_a);
  testing.def("block_offsets", &block_offsets, "pattern"_a, "blocks"_a, "step"_a, "count"_a);
  testing.def("chunk_steps", &chunk_steps, "chunks"_a, "ways"_a, "repeats"_a, "loops"_a);
  testing.def("kernel_results", &kernel_results, "operation"_a, "streaming"_a, "count"_a);
  testing.def("huge_bytes", &huge_bytes, "topology"_a, "bytes"_a, "small"_a);
  testing.def("can_flush_caches", &lanescope::can_flush_caches);
  testing.def("untouched_bytes", &untouched_bytes, "pattern"_a, "repetitions"_a, "block_bytes"_a,
              "span_bytes"_a);
  bind_piece_testing(testing);
  bind_channel_testing(testing);
  bind_scope_testing(testing);
  bind_grid_testing(testing);
  bind_watch_testing(testing);
  bind_probe_testing(testing);
}
