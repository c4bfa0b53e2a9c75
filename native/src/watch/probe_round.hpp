#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "watch/probed_link.hpp"

namespace lanescope::watch {

/// A short and a long copy, one after the other; as they are in a spool.
struct ProbeRecord {
  std::uint64_t begin_ns;   ///< Of the short copy: ns of `watch_time_ns`.
  std::uint32_t delay_ns;   ///< How long the short one took; all ones: as long or longer.
  std::uint32_t copy_ns;    ///< The same of the long one, which followed.
  std::uint32_t direction;  ///< A `ProbeWay`.
  std::uint32_t reserved;   ///< 0.

  bool operator==(const ProbeRecord&) const = default;
};
static_assert(sizeof(ProbeRecord) == 24);

/// What is copied, and how often.
struct ProbeSettings {
  std::size_t chunk_bytes;  ///< Of the long copy.
  std::uint64_t period_ns;  ///< From round to round; 0: one after the other.
  double most_share;        ///< Of the link's time in either direction; above 0, at most 1.
};

/// Throws `Error` named "bad probe" for settings that cannot be.
void require_sound(const ProbeSettings& settings);

/// Bytes of the short copy.
inline constexpr std::size_t kDelayBytes = 4;

/// Probes both directions of a link in turn, as both at once disturb each other.
class ProbeRounds {
 public:
  /// Borrows `link`. Throws `Error`; see `require_sound`.
  ProbeRounds(ProbedLink& link, const ProbeSettings& settings);

  /// One round; appends a record for each direction, fewer when it was stopped. Returns
  /// whether it was whole. Throws `Error`.
  bool run(const ProbedLink::Stopping& stopping, std::vector<ProbeRecord>& records);

  /// How long after a round's begin the next should begin, when the round took `round_ns`.
  ///
  /// Without a period the next round begins at once, but where the GPU was shared with another
  /// process 5 ms after the last one began.
  ///
  /// The fastest chunk so far is what a chunk takes of the link: whatever a slower one took
  /// beyond that, it waited. A round that took most of the period is followed by half a
  /// period of rest, as waiting occupies a CPU.
  std::uint64_t next_after(std::uint64_t round_ns) const noexcept;

 private:
  ProbedLink& link_;
  ProbeSettings settings_;
  std::array<std::uint64_t, 2> fastest_ns_;
};

}  // namespace lanescope::watch
