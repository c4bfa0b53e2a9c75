#pragma once

namespace lanescope::intercept {

/// @return what the C library's own dlsym finds.
void* real_dlsym(void* handle, const char* name) noexcept;

/// @return a function of the driver that is loaded; null if there is none.
void* driver_symbol(const char* name) noexcept;

}  // namespace lanescope::intercept
