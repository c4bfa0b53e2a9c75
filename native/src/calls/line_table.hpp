#pragma once

#include <cstdint>

namespace lanescope::calls {

/// The line of an instruction, by the table of a code object of CPython 3.11 and newer: entries for
/// one to eight instructions each, of a byte with the highest bit set and some without it.
///
/// @param next returns the table's next byte, or -1 at its end.
/// @param instruction how many instructions of two bytes stand before it.
/// @return the line; `first` where none is known.
template <class Next>
std::int64_t line_of_instruction(Next&& next, std::int64_t first, std::int64_t instruction) {
  const auto number = [&] {  // six bits a byte, the lowest first
    std::uint64_t value = 0;
    for (int shift = 0; shift < 60; shift += 6) {
      const int byte = next();
      if (byte < 0) break;
      value |= static_cast<std::uint64_t>(byte & 63) << shift;
      if ((byte & 64) == 0) break;
    }
    return value;
  };
  const auto difference = [&] {  // the lowest bit is the sign
    const std::uint64_t value = number();
    const auto size = static_cast<std::int64_t>(value >> 1);
    return (value & 1) != 0 ? -size : size;
  };
  constexpr int kOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15;
  std::int64_t line = first, end = 0;
  for (int head = next(); head >= 0; head = next()) {
    if ((head & 128) == 0) continue;  // columns
    const int form = head >> 3 & 15;
    end += (head & 7) + 1;
    if (form == kNoColumns || form == kLong) {
      line += difference();
    } else if (form >= kOneLine && form < kNoColumns) {
      line += form - kOneLine;
    }
    if (end > instruction) return form == kNone ? first : line;
  }
  return first;
}

}  // namespace lanescope::calls
