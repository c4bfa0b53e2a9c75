#include <algorithm>
#include <string>
#include <vector>

#include "error.hpp"
#include "host/parallel.hpp"
#include "workload/grid_check.hpp"
#include "workload/grid_filter.hpp"
#include "workload/grid_points.hpp"
#include "workload/grid_testing.hpp"

namespace lanescope {

namespace {

constexpr GridFilter kFilter = make_grid_filter();

/// Makes a row of a level, in the order of additions of the kernel for GPUs.
class RowFilter {
 public:
  RowFilter(const GridSpec& spec, const GridArrays& arrays)
      : nx_(static_cast<std::size_t>(spec.nx)),
        ny_(spec.ny),
        arrays_(arrays),
        padded_(nx_ + 2 * kReach) {}

  void make(int k, int y) {
    const std::size_t level = static_cast<std::size_t>(k) * nx_ * static_cast<std::size_t>(ny_);
    double* sums = arrays_.out[0] + level + static_cast<std::size_t>(y) * nx_;
    std::fill_n(sums, nx_, 0.0);
    for (int j = 0; j < kFilterWidth; ++j) {
      const int from = std::clamp(y + j - kFilterReach, 0, ny_ - 1);
      pad(arrays_.in[0] + level + static_cast<std::size_t>(from) * nx_);
      for (std::size_t i = 0; i < kFilterWidth; ++i) {
        const double weight = kFilter.at[j][i];
        for (std::size_t x = 0; x < nx_; ++x) sums[x] += weight * padded_[x + i];
      }
    }
  }

 private:
  static constexpr std::size_t kReach = kFilterReach;

  /// Beyond its ends a row goes on as it is there.
  void pad(const double* row) {
    std::fill_n(padded_.begin(), kReach, row[0]);
    std::copy_n(row, nx_, padded_.begin() + kReach);
    std::fill_n(padded_.begin() + static_cast<std::ptrdiff_t>(kReach + nx_), kReach, row[nx_ - 1]);
  }

  std::size_t nx_;
  int ny_;
  const GridArrays& arrays_;
  std::vector<double> padded_;
};

}  // namespace

void run_grid_kernel(const GridSpec& spec, const GridArrays& arrays, int first, int count,
                     int threads) {
  check_grid(spec, arrays, first, count);
  if (threads < 1)
    throw Error("run_grid_kernel", 0, "no threads",
                "it needs 1 thread or more, not " + std::to_string(threads));
  // Rows, so that a single level is shared out, too.
  const auto ny = static_cast<std::size_t>(spec.ny), nx = static_cast<std::size_t>(spec.nx);
  const std::size_t rows = ny * static_cast<std::size_t>(count);
  const std::size_t least = (rows - 1) / static_cast<std::size_t>(threads) + 1;
  const auto level_of = [&](std::size_t row) { return first + static_cast<int>(row / ny); };
  if (spec.kernel == GridKernel::convolution)
    return in_parallel(rows, least, [&](std::size_t begin, std::size_t end) {
      RowFilter filter(spec, arrays);
      for (std::size_t row = begin; row < end; ++row)
        filter.make(level_of(row), static_cast<int>(row % ny));
    });
  with_points(spec, arrays, [&](const auto& points) {
    in_parallel(rows, least, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row)
        for (std::size_t c = row % ny * nx; c < (row % ny + 1) * nx; ++c)
          points.point(level_of(row), c);
    });
  });
}

void run_grid_columns(const GridSpec& spec, const GridArrays& arrays, int first, int count) {
  check_grid(spec, arrays, first, count);
  if (spec.kernel == GridKernel::convolution) return;
  with_points(spec, arrays, [&](const auto& points) {
    for (std::size_t c = 0; c < spec.level_values(); ++c) points.column(c, first, first + count);
  });
}

}  // namespace lanescope
