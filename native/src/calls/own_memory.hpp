#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lanescope::calls {

/// Reads this process's memory through the kernel, so that an address that is wrong is an answer
/// and no fault. Pages are remembered until `forget`: what is read together lies together.
class OwnMemory {
 public:
  void forget() noexcept;

  /// @return whether all of it could be read.
  bool read(std::uint64_t at, void* to, std::size_t bytes) noexcept;

  template <class Value>
  bool read_value(std::uint64_t at, Value& to) noexcept {
    return read(at, &to, sizeof to);
  }

 private:
  static constexpr std::size_t kBytes = 4096;  // of a page, or of a part of a larger one
  static constexpr std::size_t kRemembered = 4;

  struct Part {
    std::uint64_t number;  // and 1: nothing is remembered in zeros
    char bytes[kBytes];
  };

  const Part* part(std::uint64_t number) noexcept;

  Part parts_[kRemembered];
};

/// Read as many bytes at each of some addresses, one behind the other into `to`.
/// @return how many could be read, from the first on.
std::size_t read_each(std::span<const std::uint64_t> places, void* to, std::size_t bytes) noexcept;

}  // namespace lanescope::calls
