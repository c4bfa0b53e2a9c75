#pragma once

#include <cstddef>

#include "workload/equation_of_state.hpp"
#include "workload/grid_kernels.hpp"

namespace lanescope {

// What the kernels do at a point: column `c` (a number in its level) of level `k`, both from 0.
//   point(k, c)             that point alone
//   column(c, first, last)  these levels of the column, each value loaded once

/// In cm/s2.
inline constexpr double kGravity = 980.6;
/// Twice a double is exact: a fused multiply-add rounds like a multiplication and an addition.
inline constexpr double kAxpyFactor = 2.0;
/// Water is not colder, in deg C.
inline constexpr double kFreezing = -2.0;

/// In cm/s2: how much lighter water is than that of the level below it, and than the water at hand
/// is, both at the pressure at hand.
template <typename Real>
struct Buoyancy {
  Real of_above, of_surface;
};

/// Of water that is moved to where `here` is.
template <typename Equation, typename Real>
LANESCOPE_BOTH Buoyancy<Real> buoyancy(const typename Equation::template Level<Real>& level,
                                       const Water<Real>& surface, const Water<Real>& above,
                                       const Water<Real>& here) {
  const auto rho = [&](const Water<Real>& water) {
    const Water<Real> unfrozen{held(water.temperature, kFreezing, HUGE_VAL), water.salinity};
    return Equation::template density<false>(level, Equation::enforced(unfrozen)).rho;
  };
  const Real inverse = 1.0 / rho(here);
  return {(1.0 - rho(above) * inverse) * kGravity, (1.0 - rho(surface) * inverse) * kGravity};
}

/// Density and, if three outputs are wanted, its derivatives.
template <typename Equation, int kOutputs>
struct StatePoint {
  GridArrays arrays;
  std::size_t level_values;

  LANESCOPE_BOTH void point(int k, std::size_t c) const {
    const std::size_t i = static_cast<std::size_t>(k) * level_values + c;
    Density<double> found{};
    if (!Equation::kMasked || k < arrays.deepest[c]) {
      const typename Equation::template Level<double> level(arrays.per_level[k]);
      const Water<double> water{arrays.in[0][i], arrays.in[1][i]};
      found = Equation::template density<(kOutputs > 1)>(level, Equation::enforced(water));
    }
    arrays.out[0][i] = found.rho;
    if constexpr (kOutputs > 1) {
      arrays.out[1][i] = found.by_temperature;
      arrays.out[2][i] = found.by_salinity;
    }
  }

  LANESCOPE_BOTH void column(std::size_t c, int first, int last) const {
    for (int k = first; k < last; ++k) point(k, c);
  }
};

/// Buoyancy differences between a level, the one above it and the surface. Level k completes
/// DBLOC (out[0]) of the level above it and DBSFC (out[1]) of its own.
template <typename Equation>
struct BuoydiffPoint {
  GridArrays arrays;
  std::size_t level_values;
  int nz;

  LANESCOPE_BOTH std::size_t index(int k, std::size_t c) const {
    return static_cast<std::size_t>(k) * level_values + c;
  }

  LANESCOPE_BOTH Water<double> water(int k, std::size_t c) const {
    return {arrays.in[0][index(k, c)], arrays.in[1][index(k, c)]};
  }

  LANESCOPE_BOTH void differ(int k, std::size_t c, const Water<double>& surface,
                             const Water<double>& above, const Water<double>& here) const {
    const bool below_bottom = k >= arrays.deepest[c];
    const typename Equation::template Level<double> level(arrays.per_level[k]);
    const auto found = buoyancy<Equation>(level, surface, above, here);
    arrays.out[0][index(k - 1, c)] = below_bottom ? 0.0 : found.of_above;
    arrays.out[1][index(k, c)] = Equation::kMasked && below_bottom ? 0.0 : found.of_surface;
  }

  /// What no level computes: the surface's difference from itself, and the last level's from none.
  LANESCOPE_BOTH void ends(int k, std::size_t c) const {
    if (k == 0) arrays.out[1][c] = 0.0;
    if (k == nz - 1) arrays.out[0][index(k, c)] = 0.0;
  }

  LANESCOPE_BOTH void point(int k, std::size_t c) const {
    if (k > 0) differ(k, c, water(0, c), water(k - 1, c), water(k, c));
    ends(k, c);
  }

  LANESCOPE_BOTH void column(std::size_t c, int first, int last) const {
    const Water<double> surface = water(0, c);
    Water<double> above = first > 1 ? water(first - 1, c) : surface;
    for (int k = first; k < last; ++k) {
      if (k > 0) {
        const Water<double> here = water(k, c);
        differ(k, c, surface, above, here);
        above = here;
      }
      ends(k, c);
    }
  }
};

struct AxpyPoint {
  GridArrays arrays;
  std::size_t level_values;

  LANESCOPE_BOTH void point(int k, std::size_t c) const {
    const std::size_t i = static_cast<std::size_t>(k) * level_values + c;
    arrays.out[0][i] = kAxpyFactor * arrays.in[0][i] + arrays.in[1][i];
  }

  LANESCOPE_BOTH void column(std::size_t c, int first, int last) const {
    for (int k = first; k < last; ++k) point(k, c);
  }
};

/// Calls `go` with an object of the equation's class.
template <typename Go>
void with_equation(EquationOfState equation, Go go) {
  switch (equation) {
    case EquationOfState::mwjf:
      return go(Mwjf{});
    case EquationOfState::jmcd:
      return go(Jmcd{});
    case EquationOfState::linear:
      return go(Linear{});
  }
}

/// Calls `go` with what the kernel does at a point; not for the convolution, which has neighbours.
template <typename Go>
void with_points(const GridSpec& spec, const GridArrays& arrays, Go go) {
  const std::size_t values = spec.level_values();
  if (spec.kernel == GridKernel::axpy) return go(AxpyPoint{arrays, values});
  with_equation(spec.equation, [&]<typename Equation>(Equation) {
    if (spec.kernel == GridKernel::buoydiff)
      go(BuoydiffPoint<Equation>{arrays, values, spec.nz});
    else if (spec.outputs == 1)
      go(StatePoint<Equation, 1>{arrays, values});
    else
      go(StatePoint<Equation, 3>{arrays, values});
  });
}

}  // namespace lanescope
