#pragma once

#include <cstddef>

namespace lanescope {

/// What host threads do with the bytes, as STREAM does: copy (a = b), scale (a = s * b),
/// add (a = b + c) or triad (a = b + s * c).
enum class Operation { copy, scale, add, triad };

/// How results are written: through the cache, which first reads the line that is
/// about to be overwritten, or past it (non-temporal stores).
enum class Stores { cached, streaming };

/// Whether this build and CPU have streaming stores, which are those of AVX.
bool has_streaming_stores();

/// The s of scale and triad, exactly representable so that results can be compared exactly.
inline constexpr double kScalar = 3.0;

/// Whether an operation reads two arrays, and not one.
constexpr bool reads_two(Operation operation) {
  return operation == Operation::add || operation == Operation::triad;
}

/// What an operation makes of an element of each array that it reads; without a second one
/// `c` does not matter.
constexpr double result_of(Operation operation, double b, double c) {
  switch (operation) {
    case Operation::scale:
      return kScalar * b;
    case Operation::add:
      return b + c;
    case Operation::triad:
      return b + kScalar * c;
    case Operation::copy:
      break;
  }
  return b;
}

/// One pass over `count` doubles: a[i] = result_of(operation, b[i], c[i]).
/// The arrays do not overlap and start at 64-byte boundaries; `c` is unused by operations that
/// read one array. Throws `Error` for streaming stores in a build that has none.
void run_kernel(Operation operation, Stores stores, double* a, const double* b, const double* c,
                std::size_t count);

}  // namespace lanescope
