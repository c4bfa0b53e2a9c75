#pragma once

#include <cstddef>
#include <functional>

namespace lanescope {

/// Calls `part(first, last)` for parts of [0, count) on several threads, each part of
/// at least `least` items; with so many threads, or for 0 with as many as there are CPUs at hand,
/// 16 at most. What takes long is several parts of each thread: `throw_if_interrupted` between.
void in_parallel(std::size_t count, std::size_t least,
                 const std::function<void(std::size_t, std::size_t)>& part,
                 std::size_t threads = 0);

}  // namespace lanescope
