#pragma once

#include <cstddef>

namespace lanescope {

/// What host threads do with the bytes: STREAM's copy (a = b) or triad (a = b + s * c).
enum class Operation { copy, triad };

/// How results are written: through the cache, which first reads the line that is
/// about to be overwritten, or past it (non-temporal stores).
enum class Stores { cached, streaming };

/// Whether this build and CPU have streaming stores.
bool has_streaming_stores();

/// The s of triad, exactly representable so that results can be compared exactly.
inline constexpr double kTriadScalar = 3.0;

/// One pass over `count` doubles: a[i] = b[i], or a[i] = b[i] + s * c[i].
/// The arrays do not overlap and start at 64-byte boundaries; `c` is unused by copy.
void run_kernel(Operation operation, Stores stores, double* a, const double* b, const double* c,
                std::size_t count);

}  // namespace lanescope
