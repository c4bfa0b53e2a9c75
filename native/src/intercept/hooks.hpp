#pragma once

#include <string_view>

/// What each library that stands between a program and the driver says of itself. `dlsym.cpp` and
/// `exported.hpp`, which all of them are made of, call these.
namespace lanescope::intercept {

/// @return whether this process is to have anything in place of the driver's functions.
bool is_wanted() noexcept;

/// CUDA has begun in this process: cuInit has succeeded. All that opens files is done now, as a
/// program may lock itself up before it copies: by a filter of system calls, a limit, another root.
void cuda_has_begun() noexcept;

/// @return what a program gets in place of a function of the driver's that it has looked up by
/// `symbol`, a name in the driver's library: a function that calls it, or the function itself.
void* wrapped_symbol(std::string_view symbol, void* function) noexcept;

/// The same of a function that cuGetProcAddress has found: by the name without version, for a
/// version of CUDA, and with or without a default stream for each thread.
void* wrapped_entry(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept;

/// @return what stands in place of a function found by its symbol, cuInit among them.
void* wrapped(std::string_view symbol, void* function) noexcept;

}  // namespace lanescope::intercept
