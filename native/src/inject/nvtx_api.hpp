#pragma once

#include <cstddef>
#include <cstdint>

/// The little of NVTX's interface for tools that ranges need: version 3, which is header-only,
/// asks a library for handlers by it, and keeps it the same over all of its releases.
namespace lanescope::inject::nvtx {

constexpr std::uint32_t kCallbacks = 1;  // of export tables

enum class Module : std::int32_t { core = 1, core2 = 5 };

/// Places of handlers in the table of the module `core`.
enum Core : std::uint32_t {
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
};

/// Places of handlers in the table of the module `core2`.
enum Core2 : std::uint32_t {
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
};

/// What a push and a pop answer where no tool counts levels, as without any tool.
constexpr int kNoLevels = -2;

using Handler = void (*)();
/// Pointers to where NVTX keeps its handlers, null where it has none.
using Table = Handler**;

struct ExportedCallbacks {
  std::size_t size;
  int (*table)(Module module, Table* table, std::uint32_t* size);
};

using GetExported = const void* (*)(std::uint32_t identity);

enum MessageKind : std::int32_t { kAscii = 1, kWide = 2, kRegistered = 3 };

/// What a range is given beside its name, most of which is passed over.
struct Attributes {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t colour_kind;
  std::uint32_t colour;
  std::int32_t payload_kind;
  std::int32_t reserved;
  std::uint64_t payload;
  std::int32_t message_kind;
  const void* message;
};
static_assert(offsetof(Attributes, message) == 40 && sizeof(Attributes) == 48);

}  // namespace lanescope::inject::nvtx
