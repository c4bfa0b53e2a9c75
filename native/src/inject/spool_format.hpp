#pragma once

#include <cstdint>

/// What a trace spool consists of: one line of JSON, then these records, little-endian.
///
/// Every record begins with a head and is a multiple of 8 bytes long. Times are nanoseconds
/// since 1970, by CLOCK_REALTIME as it was when the watch began and CLOCK_MONOTONIC since. The
/// reader is src/lanescope/trace/trace_spool.py.
namespace lanescope::inject {

enum class RecordKind : std::uint16_t {
  operation = 1,
  string = 2,
  call = 3,
  loss = 4,
  end = 5,
  note = 6,
  range = 7,
  managed = 8,
  host_copy = 9,
  gpu = 10,
};

/// Flag of an operation that had not ended, or whose times could not be taken: both are 0.
constexpr std::uint16_t kTimesUnknown = 1;

/// Flag of a loss: these records were left out so that the disk does not fill up; and flags of
/// what they all are.
constexpr std::uint16_t kNoRoom = 1;
constexpr std::uint16_t kLostKernels = 2;
constexpr std::uint16_t kLostCalls = 4;

/// Flag of an end: the trace ended before the program did, as another profiler had CUPTI or CUPTI
/// could not begin.
constexpr std::uint16_t kCutShort = 1;

/// Number of a device that is none: the host.
constexpr std::uint32_t kHost = 0xFFFFFFFFU;

struct Head {
  RecordKind kind;
  std::uint16_t flags;
  std::uint32_t size;  ///< bytes of the whole record, this head included
};

enum class What : std::uint32_t { copy = 0, memset = 1, kernel = 2, migration = 3 };

/// Something that a GPU did. Kinds of copies and of memory are CUPTI's numbers.
struct Operation {
  Head head;
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  std::uint64_t bytes;
  What what;
  std::uint8_t copy_kind;
  std::uint8_t source_kind;
  std::uint8_t destination_kind;
  std::uint8_t asynchronous;
  std::uint32_t source_device;
  std::uint32_t destination_device;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t correlation;
  std::uint32_t name;  ///< number of a string, 0: none
  std::uint32_t count;
  std::uint32_t reserved[2];
};
static_assert(sizeof(Operation) == 80);

/// A text, of a string (`id` from 1), of a note (`id` 0), or the PCI address of the GPU that the
/// process knows by the number `id`. Its bytes follow, padded to 8.
struct Text {
  Head head;
  std::uint32_t id;
  std::uint32_t length;
};
static_assert(sizeof(Text) == 16);

/// The program's side of an operation: the call that asked for it.
struct Call {
  Head head;
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  std::uint32_t correlation;
  std::uint32_t thread;
  std::uint32_t name;
  std::uint32_t result;
};
static_assert(sizeof(Call) == 40);

enum class EdgeKind : std::uint32_t { push = 0, pop = 1, start = 2, end = 3 };

/// Where an NVTX range begins or ends. A pop ends the last push of its thread and domain, an end
/// the start with its `id`. Those of a thread stand in the order of time.
struct RangeEdge {
  Head head;
  std::uint64_t at_ns;
  std::uint64_t id;  ///< of a start and its end, else 0
  std::uint32_t thread;
  std::uint32_t name;    ///< number of a string, 0: none
  std::uint32_t domain;  ///< number of a string, 0: the default domain
  EdgeKind kind;
};
static_assert(sizeof(RangeEdge) == 40);

/// What the driver did for managed memory; `kind` is CUPTI's number of the counter.
struct Managed {
  Head head;
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  std::uint64_t value;    ///< bytes moved, or faults of a page
  std::uint64_t address;  ///< of the first page
  std::uint32_t kind;
  std::uint32_t device;  ///< of the GPU's side
};
static_assert(sizeof(Managed) == 48);

/// Flag of a host copy: `hash` is that of the content.
constexpr std::uint16_t kHashKnown = 1;

/// What a call that copies was passed.
struct HostCopy {
  Head head;
  std::uint64_t source;
  std::uint64_t destination;
  std::uint64_t bytes;
  std::uint64_t hash;
  std::uint32_t correlation;
  std::int32_t node;  ///< NUMA node of the host's side, -1: not known
  /// When a thread of the program began to read what it carried, and how long that held it up.
  std::uint64_t read_begin_ns;
  std::uint64_t read_ns;
  std::uint64_t same_bytes;  ///< of a copy to a GPU: see `SentParts`
};
static_assert(sizeof(HostCopy) == 72);

/// Of a loss: records lost since the last one. Of an end: operations, calls and edges of ranges
/// written.
struct Count {
  Head head;
  std::uint64_t at_ns;
  std::uint64_t records;
};
static_assert(sizeof(Count) == 24);

}  // namespace lanescope::inject
