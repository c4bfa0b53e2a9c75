#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lanescope::inject {

/// @return nanoseconds of CLOCK_REALTIME since 1970.
std::uint64_t realtime_ns() noexcept;

/// @return `text` as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// @return the first line of this process's spool, with its line end.
/// @param start_ns when tracing began.
/// @param library the CUPTI library in use, empty: none.
std::string header_line(std::uint64_t start_ns, const std::string& library,
                        std::uint32_t cupti_version);

}  // namespace lanescope::inject
