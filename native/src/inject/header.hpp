#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lanescope::inject {

/// @return nanoseconds since 1970 by the clock of the watch, which nobody sets.
std::uint64_t now_ns() noexcept;

/// @return `text` as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// @return the first line of this process's spool, with its line end.
/// @param start_ns when tracing began.
/// @param library the CUPTI library in use, empty: none.
std::string header_line(std::uint64_t start_ns, const std::string& library,
                        std::uint32_t cupti_version);

}  // namespace lanescope::inject
