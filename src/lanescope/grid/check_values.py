"""Published values that an implementation of the equations of state must give."""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.grid.equations import Equation

_MWJF_PAPER = (
    "McDougall, Wright, Jackett and Feistel, Accurate and computationally efficient algorithms "
    "for potential temperature and density of seawater, J. Atmos. Oceanic Technol. 20 (2003)"
)
_JMCD_PAPER = (
    "Jackett and McDougall, Minimal adjustment of hydrographic profiles to achieve static "
    "stability, J. Atmos. Oceanic Technol. 12 (1995)"
)


@dataclass(frozen=True, slots=True)
class CheckValue:
    """The density of some water, as it was published.

    Attributes
    ----------
    salinity_psu, temperature, dbar
        Practical salinity, potential temperature in °C, pressure.
    density
        In kg/m³.
    digits
        That follow the decimal point in print.
    source
        Where it was printed.
    """

    equation: Equation
    salinity_psu: float
    temperature: float
    dbar: float
    density: float
    digits: int
    source: str


PUBLISHED = (
    CheckValue(Equation.MWJF, 35, 25, 2000, 1031.654229, 6, _MWJF_PAPER),
    CheckValue(Equation.MWJF, 20, 20, 1000, 1017.726743, 6, _MWJF_PAPER),
    CheckValue(Equation.MWJF, 40, 12, 8000, 1062.928258, 6, _MWJF_PAPER),
    CheckValue(Equation.JMCD, 35.5, 3, 3000, 1041.83267, 5, _JMCD_PAPER),
)
