#pragma once

#include <cmath>

#ifdef __CUDACC__
#define LANESCOPE_BOTH __host__ __device__
#else
#define LANESCOPE_BOTH
#endif

namespace lanescope {

// Equations of state for sea water, each as a class with
//   Level<Real>    what depends on the pressure alone; made from bar
//   kMasked        whether there is no density below the bottom (it is 0 there)
//   enforced(w)    water with its values held in the range that the equation allows
//   density<D>(l, w) the density and, with D, its derivatives
// `Real` is double, or a type that counts what is done with it. All polynomials are Horner's.

/// What water is: potential temperature in deg C, salinity in msu (kg of salt per kg).
template <typename Real>
struct Water {
  Real temperature, salinity;
};

/// In g/cm3, per deg C and per msu.
template <typename Real>
struct Density {
  Real rho, by_temperature, by_salinity;
};

/// Not-a-number stays what it is.
template <typename Real>
LANESCOPE_BOTH Real held(Real x, double low, double high) {
  return x < low ? Real(low) : (x > high ? Real(high) : x);
}

/// McDougall, Wright, Jackett and Feistel 2003: a quotient of polynomials in psu, deg C and dbar.
struct Mwjf {
  static constexpr bool kMasked = false;

  template <typename Real>
  struct Level {
    Real above, above_t2, above_s;   // of the numerator
    Real below, below_t1, below_t3;  // of the denominator
    LANESCOPE_BOTH explicit Level(Real bar) {
      const Real p = bar * 10.0, p2 = p * p;
      above = p * (p * -3.24041825e-8 + 1.04004591e-2) + 9.99843699e2;
      above_t2 = p * (p * -1.23869360e-11 + 1.03970529e-7) - 5.45928211e-2;
      above_s = p * 5.18761880e-6 + 2.96938239;
      below = p * 5.30848875e-6 + 1.0;
      below_t1 = p2 * p * -1.27934137e-17 + 7.28606739e-3;
      below_t3 = p2 * -3.03175128e-16 + 3.68390573e-7;
    }
  };

  template <typename Real>
  LANESCOPE_BOTH static Water<Real> enforced(const Water<Real>& water) {
    return {held(water.temperature, -2.0, 999.0), held(water.salinity, 0.0, 0.999)};
  }

  template <bool kDerivatives, typename Real>
  LANESCOPE_BOTH static Density<Real> density(const Level<Real>& level, const Water<Real>& water) {
    using std::sqrt;
    const Real t = water.temperature, s = water.salinity * 1000.0;
    const Real root = sqrt(s), t2 = t * t;
    const Real above_s = t * -7.23268813e-3 + level.above_s;
    const Real above = level.above + t * (t * (t * 3.98476704e-4 + level.above_t2) + 7.35212840) +
                       s * (s * 2.12382341e-3 + above_s);
    const Real below_s = t * (t2 * -1.78343643e-10 - 9.27062484e-6) + 2.14691708e-3;
    const Real below_r = t2 * 1.63410736e-9 + 4.76534122e-6;
    const Real below =
        level.below +
        t * (t * (t * (t * 1.80809186e-10 + level.below_t3) - 4.60835542e-5) + level.below_t1) +
        s * (root * below_r + below_s);
    const Real inverse = 1.0 / below, rho = above * inverse;
    if constexpr (!kDerivatives) return {rho * 1e-3, 0.0, 0.0};
    const Real above_by_t =
        t * (t * (3 * 3.98476704e-4) + 2.0 * level.above_t2) + 7.35212840 + s * -7.23268813e-3;
    const Real above_by_s = s * (2 * 2.12382341e-3) + above_s;
    const Real below_by_t =
        t * (t * (t * (4 * 1.80809186e-10) + 3.0 * level.below_t3) - 2 * 4.60835542e-5) +
        level.below_t1 +
        s * (t * (t * (-3 * 1.78343643e-10) + root * (2 * 1.63410736e-9)) - 9.27062484e-6);
    const Real below_by_s = root * 1.5 * below_r + below_s;
    return {rho * 1e-3, (above_by_t - rho * below_by_t) * inverse * 1e-3,
            (above_by_s - rho * below_by_s) * inverse};
  }
};

/// Jackett and McDougall 1995: the UNESCO form, a density at the surface and a bulk modulus, in
/// psu, deg C and bar.
struct Jmcd {
  static constexpr bool kMasked = true;

  template <typename Real>
  struct Level {
    Real bar, t0, t1, t2, t3, s0, s1, s2, r0;  // of the bulk modulus
    LANESCOPE_BOTH explicit Level(Real p) : bar(p) {
      t0 = p * (p * 2.102898e-4 + 3.186519) + 1.965933e4;
      t1 = p * (p * -1.202016e-5 + 2.212276e-2) + 1.444304e2;
      t2 = p * (p * 1.394680e-7 - 2.984642e-4) - 1.706103;
      t3 = p * 1.956415e-6 + 9.648704e-3;
      s0 = p * (p * -2.040237e-6 + 6.704388e-3) + 52.84855;
      s1 = p * (p * 6.128773e-8 - 1.847318e-4) - 0.3101089;
      s2 = p * (p * 6.207323e-10 + 2.059331e-7) + 6.283263e-3;
      r0 = p * 1.480266e-4 + 0.3886640;
    }
  };

  template <typename Real>
  LANESCOPE_BOTH static Water<Real> enforced(const Water<Real>& water) {
    return {held(water.temperature, -2.0, 40.0), held(water.salinity, 0.0, 0.042)};
  }

  /// A factor of the density, and its derivatives.
  template <typename Real>
  struct Part {
    Real value, by_temperature, by_salinity;
  };

  template <bool kDerivatives, typename Real>
  LANESCOPE_BOTH static Part<Real> at_surface(Real t, Real s, Real root) {
    const Real of_s =
        t * (t * (t * (t * 5.3875e-9 - 8.2467e-7) + 7.6438e-5) - 4.0899e-3) + 0.824493;
    const Real of_r = t * (t * -1.6546e-6 + 1.0227e-4) - 5.72466e-3;
    const Real value =
        t * (t * (t * (t * (t * 6.536332e-9 - 1.120083e-6) + 1.001685e-4) - 9.095290e-3) +
             6.793952e-2) +
        999.842594 + s * (root * of_r + of_s + s * 4.8314e-4);
    if constexpr (!kDerivatives) return {value, 0.0, 0.0};
    return {value,
            t * (t * (t * (t * (5 * 6.536332e-9) - 4 * 1.120083e-6) + 3 * 1.001685e-4) -
                 2 * 9.095290e-3) +
                6.793952e-2 +
                s * (t * (t * (t * (4 * 5.3875e-9) - 3 * 8.2467e-7) + 2 * 7.6438e-5) - 4.0899e-3 +
                     root * (t * (-2 * 1.6546e-6) + 1.0227e-4)),
            root * 1.5 * of_r + of_s + s * (2 * 4.8314e-4)};
  }

  template <bool kDerivatives, typename Real>
  LANESCOPE_BOTH static Part<Real> modulus(const Level<Real>& level, Real t, Real s, Real root) {
    const Real of_s = t * (t * (t * -5.084188e-5 + level.s2) + level.s1) + level.s0;
    const Real of_r = t * (t * -4.619924e-4 + 9.085835e-3) + level.r0;
    const Real value = t * (t * (t * (t * -4.190253e-5 + level.t3) + level.t2) + level.t1) +
                       level.t0 + s * (root * of_r + of_s);
    if constexpr (!kDerivatives) return {value, 0.0, 0.0};
    return {value,
            t * (t * (t * (-4 * 4.190253e-5) + 3.0 * level.t3) + 2.0 * level.t2) + level.t1 +
                s * (t * (t * (-3 * 5.084188e-5) + 2.0 * level.s2) + level.s1 +
                     root * (t * (-2 * 4.619924e-4) + 9.085835e-3)),
            root * 1.5 * of_r + of_s};
  }

  template <bool kDerivatives, typename Real>
  LANESCOPE_BOTH static Density<Real> density(const Level<Real>& level, const Water<Real>& water) {
    using std::sqrt;
    const Real t = water.temperature, s = water.salinity * 1000.0, root = sqrt(s);
    const auto surface = at_surface<kDerivatives>(t, s, root);
    const auto bulk = modulus<kDerivatives>(level, t, s, root);
    const Real inverse = 1.0 / (bulk.value - level.bar);
    const Real rho = surface.value * bulk.value * inverse * 1e-3;
    if constexpr (!kDerivatives) return {rho, 0.0, 0.0};
    const Real squeezed = level.bar * surface.value * inverse;
    return {rho,
            (surface.by_temperature * bulk.value - squeezed * bulk.by_temperature) * inverse * 1e-3,
            (surface.by_salinity * bulk.value - squeezed * bulk.by_salinity) * inverse};
  }
};

/// Linear in temperature and salinity whatever the pressure. It holds nothing in any range.
struct Linear {
  static constexpr bool kMasked = false;

  template <typename Real>
  struct Level {
    LANESCOPE_BOTH explicit Level(Real) {}
  };

  template <typename Real>
  LANESCOPE_BOTH static Water<Real> enforced(const Water<Real>& water) {
    return water;
  }

  template <bool kDerivatives, typename Real>
  LANESCOPE_BOTH static Density<Real> density(const Level<Real>&, const Water<Real>& water) {
    return {(water.salinity - 0.035) * 0.764 + 1.025022 - (water.temperature - 19.0) * 2.55e-4,
            -2.55e-4, 0.764};
  }
};

/// In bar, of sea water at a depth in m (Levitus' climatology, as ocean models have it).
LANESCOPE_BOTH inline double pressure_at(double depth) {
  return 0.059808 * (std::exp(-0.025 * depth) - 1.0) + depth * (2.28405e-7 * depth + 0.100766);
}

}  // namespace lanescope
