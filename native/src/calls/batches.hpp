#pragma once

#include <string_view>

namespace lanescope::calls {

/// The number in records of a call that makes many copies, which has a record for each.
constexpr int kBatchCall = 15;

/// @return what stands in place of such a call, found by its name without version for a version of
/// CUDA; the function itself where it is none.
void* wrapped_batch(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept;

}  // namespace lanescope::calls
