#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <vector>

#include "bindings.hpp"
#include "lanescope/chase_ring.hpp"
#include "lanescope/gate.hpp"
#include "lanescope/host_kernels.hpp"
#include "lanescope/pattern.hpp"

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
  const auto visits = lanescope::ring_visits({bytes, stride, order});
  std::vector<std::uint64_t> image(visits.size() * (stride / 8));
  lanescope::write_ring(image.data(), 0, stride, visits);
  std::vector<std::uint64_t> next;
  for (std::size_t i = 0; i < visits.size(); ++i) next.push_back(image[i * (stride / 8)]);
  return next;
}

std::vector<std::uint32_t> ring_visits(std::size_t bytes, std::size_t stride, bool random) {
  const auto order = random ? lanescope::ChaseOrder::random : lanescope::ChaseOrder::sequential;
  return lanescope::ring_visits({bytes, stride, order});
}

}  // namespace

void bind_testing(nb::module_& module) {
  nb::module_ testing = module.def_submodule("testing", "Parts of the core that only tests reach.");
  testing.def("gate_opens_when_body_throws", &gate_opens_when_body_throws);
  testing.def("throw_behind_gate", &throw_behind_gate, "device"_a,
              nb::call_guard<nb::gil_scoped_release>());
  testing.def("pattern_word", &lanescope::pattern_word, "seed"_a, "index"_a);
  testing.def("mismatches_after_flip", &mismatches_after_flip, "bytes"_a, "flipped"_a);
  testing.def("ring_pointers", &ring_pointers, "bytes"_a, "stride"_a, "random"_a);
  testing.def("ring_visits", &ring_visits, "bytes"_a, "stride"_a, "random"_a);
  testing.def("has_streaming_stores", &lanescope::has_streaming_stores);
  bind_piece_testing(testing);
  bind_scope_testing(testing);
}
