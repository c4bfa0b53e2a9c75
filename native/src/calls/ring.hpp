#pragma once

#include <cstdint>
#include <string>

#include "calls/ring_format.hpp"

namespace lanescope::calls {

/// What a wrapped call tells of a copy.
struct Copy {
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  std::uint8_t call = 0;
  std::uint8_t source_kind = 0;
  std::uint8_t destination_kind = 0;
  bool asynchronous = false;
  std::int16_t source_device = -1;
  std::int16_t destination_device = -1;
  std::int16_t device = -1;
};

/// The ring of this process. Any number of threads may add to it; none ever waits.
class Ring {
 public:
  /// Create `folder`/calls.`pid`.ring, with a number behind the pid where there is one already.
  /// @return null if that cannot be: no room, say.
  static Ring* create(const std::string& folder, const std::string& text) noexcept;

  /// Add to another ring, too: that of a watch around this one's.
  void set_outer(Ring* outer) noexcept { outer_ = outer; }

  void add(const Copy& copy, std::uint64_t start, std::uint64_t end) noexcept;
  void add_graph_launch() noexcept;

 private:
  explicit Ring(char* file) noexcept;

  Numbers* numbers_;
  Record* records_;
  Ring* outer_ = nullptr;
};

}  // namespace lanescope::calls
