#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lanescope {

/// A part of a workload, in nanoseconds of CLOCK_REALTIME since 1970.
struct Step {
  std::string name;
  std::uint64_t begin_ns;
  std::uint64_t end_ns;
  std::size_t h2d_bytes;  ///< That the host sends to the device in it.
  std::size_t d2h_bytes;  ///< That the device sends to the host in it.
  std::size_t copies;     ///< By which it does.

  std::size_t bytes() const noexcept { return h2d_bytes + d2h_bytes; }
};

/// What a workload did, step after step, and how many of its results are wrong.
struct WorkloadReport {
  std::vector<Step> steps;
  std::size_t wrong;
};

/// Two vectors of floats; see `vector_add`.
struct VectorAddSpec {
  int device;
  std::size_t bytes;  ///< Of each vector.
  bool pinned;
};

/// Copies two vectors to a device, adds one to the other there, copies both back and
/// compares every element: a program that moves much and computes little (chapter 2.6.1 of
/// Qi, Analysis of data movements over the PCIe bus, 2022). Throws `Error`.
WorkloadReport vector_add(const VectorAddSpec& spec);

/// A matrix of `rows` x `inner` floats and one of `inner` x `columns`; see `matmul`.
struct MatmulSpec {
  int device;
  int rows;
  int inner;
  int columns;
  int launches;
  bool pinned;
};

/// Copies two matrices to a device, multiplies them there again and again, copies the product
/// back and compares every element: a program that moves little and computes much (chapter
/// 2.6.2 of the same). Throws `Error`.
WorkloadReport matmul(const MatmulSpec& spec);

/// Copies of pinned memory in both directions; see `concurrent_copies`.
struct ConcurrentCopiesSpec {
  int device;
  int down;  ///< Streams that copy to the device.
  int up;    ///< Streams that copy to the host.
  std::size_t bytes;
  int repeats;  ///< Copies of each stream in each step.
};

/// Copies to a device, then to the host, then both ways at once, and checks every byte: what
/// concurrent copies cost each other (the outlook of the same, chapter 7.4). Throws `Error`.
WorkloadReport concurrent_copies(const ConcurrentCopiesSpec& spec);

/// Copies while a kernel computes; see `load_with_copies`.
struct LoadWithCopiesSpec {
  int device;
  double load;  ///< Share of the device's SMs that compute, 0 to 1.
  std::size_t bytes;
  int repeats;  ///< Copies there and back in each step.
};

/// Copies there and back, then computes for about as long, then does both at once, and checks
/// every byte and result: what load and copies cost each other (the same chapter). In the steps
/// of both at once each ends when it was seen to. Throws `Error`.
WorkloadReport load_with_copies(const LoadWithCopiesSpec& spec);

/// Small copies, again and again; see `many_copies`.
struct ManyCopiesSpec {
  int device;
  std::size_t bytes;
  std::size_t count;  ///< Of copies; 0: as many as fit into `seconds`.
  double seconds;
  double rate;  ///< Copies a second; 0: as fast as it goes.
};

/// Copies pinned memory to a device, launches a short kernel that reads it and waits for both,
/// again and again: what tracing costs a program that copies often shows in the time of so many
/// rounds. Throws `Error`.
WorkloadReport many_copies(const ManyCopiesSpec& spec);

}  // namespace lanescope
