"""Equations 1 to 6 of van Werkhoven et al. (2014), figure 7, and what follows from them.

Each function is one equation as it is printed. What an equation says of a direction is in
`Transfers`: ``L + o + B * G + g * (nStreams - 1)`` is `Transfers.whole`, and ``L + o +
B / nStreams * G`` is `Transfers.part`. All times are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Transfers:
    """Seconds of the copies of one direction: of all streams, and of one of them."""

    whole: float
    part: float


def explicit(h2d: float, kernel: float, d2h: float) -> float:
    """Return the time without overlap: the sum of the three."""
    return h2d + kernel + d2h


def equation_1(h2d: Transfers, kernel: float, d2h: Transfers) -> float:
    """Return the time by one copy engine, with implicit synchronisation, kernel dominant."""
    return h2d.part + kernel + d2h.whole


def equation_2(h2d: Transfers, kernel: float, d2h: Transfers, streams: int) -> float:
    """Return the time by one copy engine, with implicit synchronisation, transfers dominant."""
    return h2d.whole + kernel / streams + d2h.whole


def equation_3(h2d: Transfers, kernel: float, d2h: Transfers) -> float:
    """Return the time by one copy engine, no implicit synchronisation, kernel dominant."""
    return h2d.part + kernel + d2h.part


def equation_4(h2d: Transfers, kernel: float, d2h: Transfers, streams: int) -> float:
    """Return the time by one copy engine, no implicit synchronisation, transfers dominant.

    As in figure 7; section IV, without gaps, joins the last two terms into one that is their
    sum, which is more than the streams take.
    """
    return max(
        h2d.whole + d2h.whole,
        h2d.whole + kernel / streams + d2h.part,
        h2d.part + kernel / streams + d2h.whole,
    )


def equation_5(h2d: Transfers, kernel: float, d2h: Transfers, streams: int) -> float:
    """Return the time by two copy engines, no implicit synchronisation."""
    return max(
        h2d.whole + kernel / streams + d2h.part,
        h2d.part + kernel + d2h.part,
        h2d.part + kernel / streams + d2h.whole,
    )


def equation_6(
    h2d_bytes: float, kernel: float, d2h_bytes: float, first: float, last: float
) -> float:
    """Return the time of a kernel on mapped memory; `first` and `last` are both ``L + o``.

    `h2d_bytes` and `d2h_bytes` are the seconds ``B * G`` of each direction.
    """
    return max(
        first + h2d_bytes + last,
        first + kernel + last,
        first + last + d2h_bytes,
    )


def most_streams_1(h2d_seconds: float, gap: float) -> float:
    """Return where equation 1 is least: ``sqrt(B_hd * G_hd / g)``."""
    return sqrt(h2d_seconds / gap)


def most_streams_2(kernel: float, gap: float) -> float:
    """Return where equation 2 is least: ``sqrt(t_E / (2 * g))``."""
    return sqrt(kernel / (2 * gap))


def fewest_streams_4(kernel: float, shorter_seconds: float, gap: float) -> float:
    """Return from how many streams on equation 4 is the sum of both directions.

    More streams only add gaps then. It solves ``B * G + g * (n - 1) = (t_E + B * G) / n`` for
    n, where B * G is the shorter direction's.
    """
    if gap == 0:
        return (kernel + shorter_seconds) / shorter_seconds
    slope = shorter_seconds - gap
    root = sqrt(slope * slope + 4 * gap * (kernel + shorter_seconds))
    return (root - slope) / (2 * gap)


def most_streams_5(kernel: float, shorter_seconds: float, gap: float) -> float:
    """Return where equation 5 is least while one direction dominates.

    ``sqrt((B * G + t_E) / g)``, where B * G is the shorter direction's and g the longer's.
    """
    return sqrt((shorter_seconds + kernel) / gap)


def second_engine_helps(h2d: float, kernel: float, d2h: float, streams: int) -> bool:
    """Whether a second copy engine makes streams faster, from equations 3 to 5 without gaps.

    `h2d`, `kernel` and `d2h` are the seconds of all streams together. True where both
    directions' sum is the longest term of equations 3 and 4, as only that is gone in equation 5.
    The inequality that section IV prints, ``t_E / n + t_Thd / n > t_Thd``, does not follow from
    the paper's own equations.
    """
    rest = 1 - 1 / streams
    return (
        d2h * rest > kernel / streams
        and h2d * rest > kernel / streams
        and (h2d + d2h) * rest > kernel
    )
