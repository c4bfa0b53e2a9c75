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
  std::size_t bytes;  ///< That the host and the device exchange in it.
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

}  // namespace lanescope
