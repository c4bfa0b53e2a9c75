#pragma once

#include <cuda.h>

#include <cstddef>
#include <optional>

#include "boost/tally.hpp"

namespace lanescope::boost {

/// A copy as a program calls for it.
struct Request {
  CUdeviceptr to = 0, from = 0;
  std::size_t bytes = 0;
  /// Its stream by a handle that means the same to all calls: CU_STREAM_LEGACY and
  /// CU_STREAM_PER_THREAD in place of 0.
  CUstream stream = nullptr;
  bool asynchronous = false;
  /// As its name says; none: by its addresses.
  std::optional<Direction> direction{};
};

/// A copy between pageable memory and memory of the current context's GPU.
struct Copy {
  Direction direction = Direction::to_gpu;
  char* memory = nullptr;
  CUdeviceptr device = 0;
  std::size_t bytes = 0;
  CUstream stream = nullptr;
  bool asynchronous = false;
};

/// The thread's current context.
struct Context {
  CUcontext handle = nullptr;
  unsigned long long id = 0;  ///< No other one of the process ever has it.
  CUdevice device = -1;
};

/// @return the current context; none where there is none, or it cannot be told.
std::optional<Context> current_context() noexcept;

/// Memory of a GPU that was allocated at once.
struct Allocation {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;

  [[nodiscard]] bool holds(CUdeviceptr address, std::size_t count) const noexcept {
    return address - begin < bytes && count <= bytes - (address - begin);
  }
};

/// @return the memory of the context's GPU that holds these bytes; none where no such memory does.
std::optional<Allocation> allocation_of(const Context& context, CUdeviceptr address,
                                        std::size_t bytes) noexcept;

/// What a request is.
struct Understood {
  std::optional<Copy> copy;              ///< None: it is not to be carried.
  Reason reason = Reason::not_to_a_gpu;  ///< Why.
};

/// @return whether memory is pageable, by its first and last byte.
bool is_pageable(CUdeviceptr memory, std::size_t bytes) noexcept;

/// @return whether processes share a GPU by MPS, where nothing is carried.
bool is_shared_by_mps(CUdevice device) noexcept;

/// @return the copy that a request is, as the driver says what its addresses and its stream are.
Understood understood(const Request& request, const Context& context) noexcept;

}  // namespace lanescope::boost
