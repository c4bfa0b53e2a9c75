#include "workload/grid_operations.hpp"

#include "workload/grid_filter.hpp"
#include "workload/grid_points.hpp"

namespace lanescope {

namespace {

thread_local GridOperations counts;

/// A double that counts what is done with it.
struct Counted {
  double value = 0;

  Counted() = default;
  Counted(double x) : value(x) {}  // NOLINT: as a double is made of a literal

  friend Counted operator+(Counted a, Counted b) {
    ++counts.additions;
    return a.value + b.value;
  }
  friend Counted operator-(Counted a, Counted b) {
    ++counts.additions;
    return a.value - b.value;
  }
  friend Counted operator*(Counted a, Counted b) {
    ++counts.multiplications;
    return a.value * b.value;
  }
  friend Counted operator/(Counted a, Counted b) {
    ++counts.divisions;
    return a.value / b.value;
  }
  friend bool operator<(Counted a, Counted b) { return a.value < b.value; }
  friend bool operator>(Counted a, Counted b) { return a.value > b.value; }
};

Counted sqrt(Counted x) {
  ++counts.roots;
  return std::sqrt(x.value);
}

template <typename Equation>
void compute_point(const GridSpec& spec) {
  const Water<Counted> water{10.0, 0.035};
  const typename Equation::template Level<Counted> level(Counted(100.0));
  if (spec.kernel == GridKernel::buoydiff)
    buoyancy<Equation>(level, water, water, water);
  else if (grid_outputs(spec) == 1)
    Equation::template density<false>(level, Equation::enforced(water));
  else
    Equation::template density<true>(level, Equation::enforced(water));
}

}  // namespace

GridOperations grid_operations(const GridSpec& spec) {
  constexpr int kTaps = kFilterWidth * kFilterWidth;
  if (spec.kernel == GridKernel::axpy) return {1, 1};
  if (spec.kernel == GridKernel::convolution) return {kTaps, kTaps};
  counts = {};
  with_equation(spec.equation, [&]<typename Equation>(Equation) { compute_point<Equation>(spec); });
  return counts;
}

double sea_pressure(double depth) {
  return pressure_at(depth);
}

}  // namespace lanescope
