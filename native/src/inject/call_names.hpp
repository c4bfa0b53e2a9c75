#pragma once

#include <string>
#include <string_view>

namespace lanescope::inject {

/// @return whether a call of this name moves data, so that its thread and time are worth their
/// cost.
bool is_worth_tracing(std::string_view name);

/// @return whether a call of this name launches a kernel.
bool is_launch(std::string_view name);

/// @return the name of a call without the version and the kind of stream behind it:
/// cudaMemcpyAsync for cudaMemcpyAsync_ptsz_v7000.
std::string plain_call_name(std::string_view name);

}  // namespace lanescope::inject
