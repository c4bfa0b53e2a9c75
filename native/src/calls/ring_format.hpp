#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

/// The file that a program records its copies in and lanescope reads while it runs: numbers, then
/// rows of what threads only count, text (the first line of a trace spool, and a PCI address for
/// each GPU, a line each), and a ring of records. Where the program's Python lines are wanted, a
/// table of stacks and their texts follow. The reader is src/lanescope/trace/call_ring.py.
///
/// The program maps the file, so that a record is on its way when it is written: whatever ends the
/// program, nothing is lost. It never waits for the reader, who counts what was overwritten.
namespace lanescope::calls {

constexpr std::size_t kTextAt = 4096;
constexpr std::size_t kRecordsAt = 64 << 10;
constexpr std::uint64_t kRecords = 1 << 15;  ///< a power of two; 50 ms of 650,000 copies a second
constexpr std::uint64_t kStacks = 1 << 11;   ///< a power of two
constexpr std::uint64_t kStackTextBytes = 480 << 10;

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
  std::uint64_t stacks_at;                      ///< bytes from the beginning of the file; 0: none
  std::uint64_t stacks;
  std::uint64_t stack_text_bytes;              ///< behind the stacks
  std::atomic<std::uint64_t> stack_text_next;  ///< how many of these are taken, or were wanted
  std::atomic<std::uint64_t> stack_ns;         ///< what reading Python's frames took
};
static_assert(sizeof(Numbers) == 128 && offsetof(Numbers, next) == 64);
constexpr char kMagic[8] = {'l', 's', 'c', 'a', 'l', 'l', 's', '3'};

/// Small copies of one thread by one call that were counted and not recorded, since the ring was
/// made.
struct alignas(64) Counted {
  std::atomic<std::uint32_t> thread;  ///< 0: free
  std::atomic<std::uint32_t> call;    ///< 1 + its place in `call_names`; 0: not there yet
  std::atomic<std::uint64_t> copies;
  std::atomic<std::uint64_t> bytes;
  std::uint64_t reported_copies;  ///< how many of them records have reported, for their writer
  std::uint64_t reported_bytes;
};
static_assert(sizeof(Counted) == 64);
constexpr std::size_t kCountedAt = sizeof(Numbers);
constexpr std::size_t kCountedRows = (kTextAt - kCountedAt) / sizeof(Counted);

/// A stack of Python, whose number is its place. Its text has a line for each frame, the innermost
/// first: `p` (the program's own code) or `l` (a library's), the line's number, a tab, the
/// function, a tab, the file.
struct Stack {
  std::atomic<std::uint64_t> key;  ///< a hash of the text; 0: free
  std::atomic<std::uint32_t> bytes;
  std::atomic<std::uint32_t> text;  ///< 1 + its place; 0: it is not there, or not yet
};
static_assert(sizeof(Stack) == 16);

/// What a record says of the Python code that called; from `kFirstStack` on: the number of a stack.
enum StackCode : std::uint32_t {
  kNotWanted = 0,      ///< a smaller copy
  kOverBudget = 1,     ///< left out, so that it costs no more
  kNoStackRoom = 2,    ///< of too many different stacks
  kNoPython = 3,       ///< the thread runs no Python code
  kUnknownPython = 4,  ///< Python's version is not known here
  kUnreadable = 5,     ///< what should be a frame is none
  kFirstStack = 16,
};

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
  std::uint16_t counted;  ///< copies of this thread and call that were counted before this one,
  std::uint32_t stack;    ///< a `StackCode`
  std::uint32_t counted_bytes;  ///< and their bytes
};
static_assert(sizeof(Record) == 64);

}  // namespace lanescope::calls
