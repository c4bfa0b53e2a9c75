#include "cuda/host_clock.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lanescope {

double host_clock_cost() {
  constexpr std::size_t kReadings = 1001;
  std::vector<HostClock::time_point> times(kReadings);
  for (auto& time : times) time = HostClock::now();
  std::vector<double> steps;
  for (std::size_t i = 1; i < kReadings; ++i)
    steps.push_back(std::chrono::duration<double>(times[i] - times[i - 1]).count());
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  // Where steps are coarse most readings see none: then what it cannot tell apart counts.
  double tick = 1;
  for (const double step : steps)
    if (step > 0) tick = std::min(tick, step);
  return std::max(*middle, tick);
}

void throw_no_answer(double timeout_s) {
  throw Error("spin_until", static_cast<int>(cudaErrorTimeout), cudaGetErrorName(cudaErrorTimeout),
              "the GPU did not answer within " + std::to_string(timeout_s) + " s");
}

}  // namespace lanescope
