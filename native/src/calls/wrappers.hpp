#pragma once

#include <string_view>

namespace lanescope::calls {

/// @return what a program gets in place of a function of the driver's that it has looked up by
/// `symbol`, a name in the driver's library: a function that calls it and records what it copies,
/// or the function itself.
void* wrapped_symbol(std::string_view symbol, void* function) noexcept;

/// The same of a function that cuGetProcAddress has found: by the name without version, for a
/// version of CUDA, and with or without a default stream for each thread.
void* wrapped_entry(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept;

}  // namespace lanescope::calls
