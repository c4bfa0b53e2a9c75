#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "watch/spool_room.hpp"

namespace lanescope::watch {

/// What a counter record holds for bytes that nobody knows.
inline constexpr std::uint32_t kUnknownBytes = 0xFFFFFFFF;

/// Set in the time of records during which the sampler itself used the link; times do not reach
/// this bit before the year 2262.
inline constexpr std::uint64_t kOwnTraffic = std::uint64_t{1} << 63;

/// Bytes on the wire during (end of the record before, `end_ns`]; as it is in a spool.
struct CounterRecord {
  std::uint64_t end_ns;    ///< ns since 1970, perhaps with `kOwnTraffic`.
  std::uint32_t rx_bytes;  ///< Received by the GPU, or `kUnknownBytes`.
  std::uint32_t tx_bytes;  ///< Sent by the GPU, or `kUnknownBytes`.

  bool operator==(const CounterRecord&) const = default;
};
static_assert(sizeof(CounterRecord) == 16);

/// A file that grows, one write(2) for each batch; whatever was flushed is there after a kill.
///
/// A disk that is full ends the spool and nothing else: the reason is kept, what comes later
/// is dropped.
class SpoolFile {
 public:
  /// Creates `path` and writes `header`, which ends with a newline. Throws `Error`, also when
  /// the file is there already: no spool is written over.
  SpoolFile(const std::string& path, const std::string& header);
  ~SpoolFile();
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;

  /// Writes records with one call. Returns whether all of them are in the file.
  bool write(std::span<const CounterRecord> records) { return append(std::as_bytes(records)); }

  /// The same for records of another kind, whole ones.
  bool append(std::span<const std::byte> records);

  /// Writes another header of the same length in place of the first one, for good before any
  /// record that comes later. Returns whether that worked.
  bool replace_header(const std::string& header);

  /// Why nothing is written any more; empty while all is well.
  const std::optional<std::string>& failure() const noexcept { return failure_; }

 private:
  void put(const void* data, std::size_t bytes);

  std::string path_;
  SpoolRoom room_;
  int descriptor_ = -1;
  std::optional<std::string> failure_;
};

}  // namespace lanescope::watch
