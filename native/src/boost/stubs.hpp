#pragma once

#include <atomic>
#include <string_view>

extern "C" {
/// Not 0: a run of copies is under way, which other calls of the driver have to end.
extern __attribute__((visibility("hidden"))) std::atomic<unsigned char> lanescope_boost_run;
/// Where the calls of stubs go that have to look first.
__attribute__((visibility("hidden"))) void lanescope_stub_settles();
/// @return the symbol of a stub that stands under the driver's own name, by where the pointer to
/// its function is: lanescope_stub_settles until the first call. None has one but
/// liblanescope_batch.so, where alone `lanescope_has_named_stubs`.
__attribute__((visibility("hidden"))) const char* lanescope_stub_symbol(void** function);
extern __attribute__((visibility("hidden"))) const bool lanescope_has_named_stubs;
}

/// Stubs that stand before the driver's functions: each ends the run of copies that is under way,
/// if any, and goes on to its function by a jump, as if nothing stood before it. If a copy of the
/// run could not be made, it returns that error instead, as the driver does.
namespace lanescope::boost {

/// @return whether copies are to be gathered, and all calls of this process can be noticed.
bool are_batches_wanted() noexcept;

/// @return what stands in place of a function of the driver's, found by its name or symbol: a stub
/// where batches are wanted; the function itself where nothing can be told by it, or it is not the
/// driver's.
void* behind_settling(std::string_view name, void* function) noexcept;

}  // namespace lanescope::boost
