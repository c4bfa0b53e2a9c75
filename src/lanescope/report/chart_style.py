"""How curves are told apart: colour, marker and dash, the same in the page and in files.

The colours are those of Okabe and Ito without the yellow, which vanishes on paper.
"""

from __future__ import annotations

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#7b61b3",
    "#5b6672",
)
#: Plotly's and matplotlib's names of the same markers.
MARKERS = (
    ("circle", "o"),
    ("square", "s"),
    ("diamond", "D"),
    ("triangle-up", "^"),
    ("cross", "P"),
    ("x", "X"),
    ("triangle-down", "v"),
    ("star", "*"),
)
#: The same for dashes; numbers are lengths of dash and gap in line widths.
DASHES: tuple[tuple[str, str | tuple[float, ...]], ...] = (
    ("solid", "solid"),
    ("dash", (4, 2)),
    ("dot", (1, 1.5)),
    ("dashdot", (4, 1.5, 1, 1.5)),
    ("longdash", (8, 2)),
    ("longdashdot", (8, 2, 1, 2)),
)
LIMIT_DASH: tuple[str, tuple[float, ...]] = ("longdash", (10, 4))


def colour(number: int) -> str:
    """Return a curve's colour as ``#rrggbb``."""
    return COLOURS[number % len(COLOURS)]
