#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "inject/spool_format.hpp"

namespace lanescope::inject {

/// Records for one write. Those of a kind stand behind each other, whatever order they came in:
/// a reader takes long runs at once. Texts come first.
class RecordBuffer {
 public:
  void add(const Operation& operation) { append(operations_, &operation, sizeof operation); }
  void add(const Call& call) { append(calls_, &call, sizeof call); }
  void add(const RangeEdge& edge) { append(edges_, &edge, sizeof edge); }
  void add(const Managed& managed) { append(managed_, &managed, sizeof managed); }
  void add(const HostCopy& copy) { append(host_copies_, &copy, sizeof copy); }
  void add(const Count& count) { append(first_, &count, sizeof count); }
  /// A text longer than 64 KiB is cut.
  void add_text(RecordKind kind, std::uint32_t id, std::string_view text);

  /// @return all that was added since the last clear(); valid until the next change.
  const std::vector<char>& bytes();
  /// How many bytes that is, before they are taken.
  std::uint64_t size() const noexcept;
  /// Records among it, but for texts and counts.
  std::uint64_t records() const noexcept;
  void clear() noexcept;

 private:
  static void append(std::vector<char>& to, const void* bytes, std::size_t size);

  std::vector<char> first_;
  std::vector<char> operations_;
  std::vector<char> calls_;
  std::vector<char> edges_;
  std::vector<char> managed_;
  std::vector<char> host_copies_;
};

}  // namespace lanescope::inject
