"""Colours that people with any kind of colour vision tell apart (after Okabe and Ito).

The same in the page, the plots and the picture: a hue means one thing.
"""

from __future__ import annotations

from math import cos, pi, sin, sqrt

from lanescope.results.result import Status

#: Verdicts. Each is also told by a word and a sign, never by colour alone.
STATUS_COLOURS = {
    Status.HEALTHY: "#1b9e77",
    Status.SLOW: "#d55e00",
    Status.IMPOSSIBLE: "#b5489a",
    Status.UNJUDGED: "#8a929c",
    Status.UNRESOLVED: "#8a929c",
    Status.PREDICTED: "#4a9ad4",
    Status.NOT_MEASURED: "#8a929c",
    Status.BUSY: "#8a929c",
    Status.NOT_APPLICABLE: "#8a929c",
}

STATUS_SIGNS = {
    Status.HEALTHY: "✓",
    Status.SLOW: "▼",
    Status.IMPOSSIBLE: "✕",
    Status.UNJUDGED: "○",
    Status.UNRESOLVED: "≈",
    Status.PREDICTED: "◇",
    Status.NOT_MEASURED: "–",
    Status.BUSY: "–",
    Status.NOT_APPLICABLE: "–",
}

#: Directions of a transfer.
TO_GPU = "#2a7fbf"
FROM_GPU = "#c97800"
BETWEEN_GPUS = "#7b61b3"
WITHIN_HOST = "#3c8d6b"


def direction_colour(path: str) -> str:
    """Return the hue of a path such as ``h0 → g1``."""
    source, _, destination = path.partition(" → ")
    return {
        ("h", "g"): TO_GPU,
        ("g", "h"): FROM_GPU,
        ("g", "g"): BETWEEN_GPUS,
    }.get((source[:1], destination[:1]), WITHIN_HOST)


_PLUS = (
    *((0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4), (0.4, 1.1)),
    *((-0.4, 1.1), (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4), (-0.4, -1.1)),
)
#: Curves, in this order: those of Okabe and Ito without the yellow, which vanishes on paper.
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
#: Corners of the marker of each colour, in a square from -1 to 1.
MARKERS: tuple[tuple[tuple[float, float], ...], ...] = (
    tuple((cos(i * pi / 8), sin(i * pi / 8)) for i in range(16)),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    ((0, -1.1), (1.15, 0.9), (-1.15, 0.9)),
    _PLUS,
    tuple(((x - y) * sqrt(0.5), (x + y) * sqrt(0.5)) for x, y in _PLUS),
    ((0, 1.1), (1.15, -0.9), (-1.15, -0.9)),
    tuple((r * sin(i * pi / 5), -r * cos(i * pi / 5)) for i, r in enumerate((1.7, 0.7) * 5)),
)
STAR = 7
#: Lengths of dash and gap, in pixels.
DASHES: tuple[tuple[float, ...], ...] = (
    (1, 0),
    (7, 4),
    (2, 3),
    (7, 3, 2, 3),
    (14, 4),
    (14, 4, 2, 4),
)
LIMIT_DASH = (12, 5)


def colour(number: int) -> str:
    """Return a curve's colour as ``#rrggbb``."""
    return COLOURS[number % len(COLOURS)]
