#pragma once

namespace lanescope {

/// Points that the convolution looks at on each side of the one at hand. The filter is so wide
/// that a GPU of 2024 computes clearly longer than its link moves the grid.
inline constexpr int kFilterReach = 15;
inline constexpr int kFilterWidth = 2 * kFilterReach + 1;

struct GridFilter {
  double at[kFilterWidth][kFilterWidth];
};

/// Proportional to 1 / (1 + dx^2 + dy^2), all together 1: it smooths, and is no product of two
/// filters in one direction, which would be less work. Made by the compiler, so that it lies in a
/// GPU's constant memory from the start.
constexpr GridFilter make_grid_filter() {
  GridFilter filter{};
  double sum = 0;
  for (int j = 0; j < kFilterWidth; ++j)
    for (int i = 0; i < kFilterWidth; ++i) {
      const int dy = j - kFilterReach, dx = i - kFilterReach;
      filter.at[j][i] = 1.0 / (1 + dx * dx + dy * dy);
      sum += filter.at[j][i];
    }
  for (auto& row : filter.at)
    for (double& weight : row) weight /= sum;
  return filter;
}

}  // namespace lanescope
