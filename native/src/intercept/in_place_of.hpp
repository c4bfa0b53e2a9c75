#pragma once

#include <dlfcn.h>

#include <atomic>

namespace lanescope::intercept {

/// @return whether two functions are of one library.
inline bool are_together(const void* one, const void* other) noexcept {
  Dl_info of_one, of_other;
  return dladdr(one, &of_one) != 0 && dladdr(other, &of_other) != 0 &&
         of_one.dli_fbase == of_other.dli_fbase;
}

/// @return what stands in place of a function: our own, which calls it; or the function itself
/// where ours calls that of another library already. So what another library puts before the driver
/// stays before it. Of one driver each name has one meaning, however it is looked up.
template <class Function>
void* swapped(std::atomic<Function>& original, Function own, void* function) noexcept {
  void* ours = reinterpret_cast<void*>(own);
  if (function == ours) return ours;
  const auto wanted = reinterpret_cast<Function>(function);
  Function there = nullptr;
  if (original.compare_exchange_strong(there, wanted) || there == wanted) return ours;
  return are_together(reinterpret_cast<const void*>(there), function) ? ours : function;
}

}  // namespace lanescope::intercept
