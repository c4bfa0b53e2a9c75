#pragma once

#include <cstdint>

#include "calls/own_thread.hpp"
#include "calls/recorder.hpp"

/// Small copies that follow each other closely are counted, and only every 16th or so is recorded:
/// a record takes longer than 0.5 % of the time between them. What is counted has the places of the
/// next record of its thread and call; the reader puts it evenly between that and the one before.
namespace lanescope::calls {

constexpr std::uint64_t kSmallBytes = 16 << 10;
constexpr std::uint32_t kJudged = 64;  ///< so many small copies tell whether they are close
constexpr std::uint32_t kLeastCounted = 8, kMostCounted = 23;  ///< between two records

/// @return whether a copy is to be counted and not recorded, unless it goes into a graph.
inline bool is_only_counted(std::uint8_t call, std::uint64_t bytes) noexcept {
  const OwnThread& own = own_thread;
  return own.left_to_count != 0 && call == own.counted_call && bytes <= kSmallBytes;
}

/// Before the call, which may fail: what comes behind it takes longer.
inline void count(std::uint64_t bytes) noexcept {
  OwnThread& own = own_thread;
  --own.left_to_count;
  Counted& row = *own.counted;
  constexpr auto relaxed = std::memory_order_relaxed;  // the row is this thread's
  row.bytes.store(row.bytes.load(relaxed) + bytes, relaxed);
  row.copies.store(row.copies.load(relaxed) + 1, relaxed);
}

/// Before a small copy is recorded: report in it what was counted before, and decide how many of
/// those that follow are only counted.
void settle_counted(Copy& copy, std::uint64_t start) noexcept;

}  // namespace lanescope::calls
