#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "watch/modular.hpp"

namespace lanescope::watch {

/// Quickly adds up a number for each bit of a sample that differs from the first sample's.
///
/// Bits in turn of which each counts twice what the one before does, or its negative, are taken
/// together, as a counter with some of its bits inverted; others by tables, a byte at a time.
class BitSum {
 public:
  /// A sum that is 0.
  BitSum() = default;

  /// `numbers`: one for each bit of `first`, by their order in memory, little-endian.
  BitSum(std::span<const modular::Number> numbers, std::span<const std::uint8_t> first);

  /// The sum of a sample. Behind its last byte are 7 more that can be read.
  modular::Number operator()(const std::uint8_t* sample) const noexcept;

  /// How many fields and tables are looked up for it.
  std::size_t terms() const noexcept { return fields_.size() + tables_.size(); }

 private:
  struct Field {
    std::size_t byte;              // where 8 bytes begin
    std::uint64_t inverted, mask;  // of them
    unsigned shift;
    modular::Number factor;
  };
  struct Table {
    std::size_t byte;
    std::array<modular::Number, 256> adds;  // by the byte's value
  };

  bool add_field(std::span<const std::size_t> run, std::span<const modular::Number> numbers,
                 std::span<const std::uint8_t> first);
  void add_table(std::size_t byte, std::span<const modular::Number> numbers, std::uint8_t first);

  modular::Number constant_ = 0;
  std::vector<Field> fields_;
  std::vector<Table> tables_;
};

}  // namespace lanescope::watch
