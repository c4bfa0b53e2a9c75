"""Colours that people with any kind of colour vision tell apart (after Okabe and Ito).

The same in the page, the plots and the picture: a hue means one thing.
"""

from __future__ import annotations

from lanescope.measurement.result import Status

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


def translucent(colour: str, alpha: float) -> str:
    """Return a ``#rrggbb`` colour with an opacity of 0 to 1."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
