#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <span>

/// DLPack's interface for exchange in C, version 1, as a framework's type lends it by a capsule.
/// Names are ours; only what is called has its type.
struct ExchangeApi {
  static constexpr const char* kCapsule = "dlpack_exchange_api";
  static constexpr std::uint32_t kMajor = 1;

  std::uint32_t major, minor;
  ExchangeApi* older;
  void* allocate;
  void* own;
  void* give;
  int (*lend)(void* object, nanobind::dlpack::dltensor* tensor);
  void* current_stream;
};

/// What a table of tensors says of all of them.
struct TensorSummary {
  std::size_t runs = 0;  ///< Of one type and shape, one behind the other.
  /// Every bit that is in one of the addresses, or of the sizes: by which they are aligned.
  std::uint64_t address_bits = 0, size_bits = 0;
};

/// Where tensors lie, their bytes, and the numbers of those of which type or shape are others than
/// of the one before. Rooms are for as many as there are tensors.
struct TensorTable {
  std::span<std::uint64_t> pointers, sizes, begins;

  /// Fills it, `begins` as far as there are runs. None where one is of another type than the first,
  /// lies elsewhere than on `gpu` (-1: the host), has gaps, or may be a view that is changed when
  /// it is read: complex ones, and ones of so few bytes that they can be an imaginary part.
  std::optional<TensorSummary> fill(const ExchangeApi& api, const nanobind::list& tensors, int gpu);

  static constexpr std::size_t kShortBytes = 16;
};
