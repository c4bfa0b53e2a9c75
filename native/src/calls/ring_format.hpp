#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

/// The file that a program records its copies in and lanescope reads while it runs: numbers, then
/// text (the first line of a trace spool, and a PCI address for each GPU, a line each), then a ring
/// of records. The reader is src/lanescope/trace/call_ring.py.
///
/// The program maps the file, so that a record is on its way when it is written: whatever ends the
/// program, nothing is lost. It never waits for the reader, who counts what was overwritten.
namespace lanescope::calls {

constexpr std::size_t kTextAt = 4096;
constexpr std::size_t kRecordsAt = 64 << 10;
constexpr std::uint64_t kRecords = 1 << 15;  ///< a power of two; 50 ms of 650,000 copies a second

struct Numbers {
  char magic[8];             ///< kMagic
  std::uint64_t records_at;  ///< bytes from the beginning of the file
  std::uint64_t records;     ///< of the ring
  std::uint64_t has_ticks;   ///< 1: times are of `ticks()`; 0: of CLOCK_MONOTONIC, ns
  std::uint64_t text_bytes;  ///< 0 until the text is there
  std::uint64_t graph_launches;
  std::uint64_t start_ticks;                    ///< `ticks()` when the ring was made
  std::uint64_t start_ns;                       ///< and CLOCK_MONOTONIC
  alignas(64) std::atomic<std::uint64_t> next;  ///< number of the next record
  std::uint64_t process;                        ///< its number in its namespace,
  std::uint64_t pid_namespace;                  ///< which is this
};
static_assert(sizeof(Numbers) == 128 && offsetof(Numbers, next) == 64);
constexpr char kMagic[8] = {'l', 's', 'c', 'a', 'l', 'l', 's', '1'};

/// A call that copied, or began to. Kinds of memory are CUPTI's numbers.
struct Record {
  std::atomic<std::uint64_t> sequence;  ///< 1 + its number when it is whole
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t bytes;
  std::uint64_t stream;
  std::uint32_t thread;
  std::uint8_t call;  ///< place in `call_names`
  std::uint8_t source_kind;
  std::uint8_t destination_kind;
  std::uint8_t asynchronous;
  std::int16_t source_device;  ///< -1: the host
  std::int16_t destination_device;
  std::int16_t device;
  std::int16_t reserved[5];
};
static_assert(sizeof(Record) == 64);

}  // namespace lanescope::calls
