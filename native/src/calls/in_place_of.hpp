#pragma once

#include <atomic>

namespace lanescope::calls {

/// @return what stands in place of a function: our own, which calls it; or the function itself
/// where ours calls another one already. So what another library puts before the driver stays
/// before it.
template <class Function>
void* swapped(std::atomic<Function>& original, Function own, void* function) noexcept {
  void* ours = reinterpret_cast<void*>(own);
  if (function == ours) return ours;
  const auto wanted = reinterpret_cast<Function>(function);
  Function there = nullptr;
  return original.compare_exchange_strong(there, wanted) || there == wanted ? ours : function;
}

}  // namespace lanescope::calls
