#include "calls/counted.hpp"

namespace lanescope::calls {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

/// Put what was counted since the latest record of this thread and call into the next one.
void report_counted(Copy& copy, const OwnThread& own) noexcept {
  if (own.counted == nullptr || own.counted_call != copy.call) return;
  Counted& row = *own.counted;
  const std::uint64_t copies = row.copies.load(relaxed), bytes = row.bytes.load(relaxed);
  copy.counted = static_cast<std::uint16_t>(copies - row.reported_copies);
  copy.counted_bytes = static_cast<std::uint32_t>(bytes - row.reported_bytes);
  row.reported_copies = copies;
  row.reported_bytes = bytes;
}

/// Not always as many: a loop may have as many copies as are counted, and always record the same.
std::uint32_t some_count(std::uint64_t now) noexcept {
  const auto some = static_cast<std::uint32_t>(now * 0x9E3779B97F4A7C15 >> 60);
  return kLeastCounted + some % (kMostCounted - kLeastCounted + 1);
}

}  // namespace

void settle_counted(Copy& copy, std::uint64_t start) noexcept {
  OwnThread& own = own_thread;
  report_counted(copy, own);
  own.judged += 1U + copy.counted;
  if (own.judged >= kJudged) {
    const bool are_close = start - own.judged_from < own.judged * std::uint64_t{recording.close};
    own.judged_from = start;
    own.judged = 0;
    if (are_close && (own.counted == nullptr || own.counted_call != copy.call)) {
      own.counted = recording.ring.counted_by(thread_number(), copy.call);
      own.counted_call = copy.call;
      report_counted(copy, own);
    }
    own.is_close = are_close && own.counted != nullptr;
    if (!own.is_close) own.left_to_count = 0;
  }
  if (own.is_close && own.counted_call == copy.call) own.left_to_count = some_count(start);
}

}  // namespace lanescope::calls
