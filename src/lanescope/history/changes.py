"""When a series of medians changed its level, and whether a new one lies below it.

Medians of a sound path differ from run to run by more than each run's own interval says. How much
is estimated from differences of successive runs, which a change of level moves once only, by their
median absolute value (Rousseeuw and Croux, Alternatives to the Median Absolute Deviation, 1993). A
series is cut in two where the absolute distances from both medians are least, and each part again
(binary segmentation: Scott and Knott, 1974), while the medians differ by more than chance gives in
one of so many series of normal values; of values with the tails of Student's t of 3 degrees it
gives ten times as many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

#: A level has so many runs at least: one run alone may be disturbed.
LEAST_RUNS = 2
#: Of fewer runs nothing is said: how much they differ is not known.
LEAST_HISTORY = 4
#: How many unchanged series in so many may show a change.
FALSE_ALARMS = 1e-3
#: Median absolute value to standard deviation, for a normal distribution.
_MAD_TO_SIGMA = 1.4826
#: Standard deviation of a median over that of a mean, of many normal values.
_OF_MEDIAN = 1.2533
#: Runs of a sound path differ by this at least, as a share.
_LEAST_SIGMA = 0.002
#: The deviation is taken for larger by this over the root of the number of differences, which say
#: how large it is: so false alarms stay as rare with few runs (tests/history/test_changes.py).
_UNCERTAIN = 3.0


@dataclass(frozen=True, slots=True)
class Level:
    """Successive runs of a series that agree.

    Attributes
    ----------
    first, end
        Numbers of its first run and of the first run behind it.
    value
        Median of its runs.
    """

    first: int
    end: int
    value: float

    @property
    def runs(self) -> int:
        """How many runs it has."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Shift:
    """From one level to the next, or to a single run.

    Attributes
    ----------
    effect
        New value over old value, less 1.
    half_width
        Half of the effect's 95 % interval.
    certain
        Whether chance gives as much in fewer than `FALSE_ALARMS` of the cases.
    """

    effect: float
    half_width: float
    certain: bool


def scatter(values: Sequence[float]) -> float:
    """Return how much runs of an unchanged path differ: a standard deviation as a share."""
    differences = [abs(math.log(b / a)) for a, b in itertools.pairwise(values)]
    if not differences:
        return math.inf
    return max(_MAD_TO_SIGMA * median(differences) / math.sqrt(2), _LEAST_SIGMA)


def levels(
    values: Sequence[float], least_effect: float = 0.02, false_alarms: float = FALSE_ALARMS
) -> list[Level]:
    """Return the levels of a series of positive values, the oldest first.

    Parameters
    ----------
    least_effect
        Smaller changes, as a share, are none, however sure they are.
    false_alarms
        Share of unchanged series that may show a change.
    """
    whole = Level(0, len(values), median(values))
    if len(values) < LEAST_HISTORY:
        return [whole]
    sigma = scatter(values)
    quantile = _quantile(len(values), false_alarms / (len(values) - 1))
    return _cut(values, whole, sigma, quantile, least_effect)


def shift_to(
    values: Sequence[float],
    level: Level,
    value: float,
    least_effect: float = 0.02,
    false_alarms: float = FALSE_ALARMS,
) -> Shift | None:
    """Compare a new value with the level that a series has; None where it is too short."""
    if len(values) < LEAST_HISTORY:
        return None
    one = Level(len(values), len(values) + 1, value)
    return _shift(
        scatter(values), level, one, _quantile(len(values) - 1, false_alarms), least_effect
    )


def shift_between(
    values: Sequence[float],
    before: Level,
    after: Level,
    least_effect: float = 0.02,
    false_alarms: float = FALSE_ALARMS,
) -> Shift:
    """Compare two levels of a series."""
    quantile = _quantile(len(values), false_alarms / max(len(values) - 1, 1))
    return _shift(scatter(values), before, after, quantile, least_effect)


def _cut(
    values: Sequence[float], level: Level, sigma: float, quantile: float, least_effect: float
) -> list[Level]:
    inside = values[level.first : level.end]
    if level.runs < 2 * LEAST_RUNS or max(inside) / min(inside) - 1 <= least_effect:
        return [level]  # no two parts of it can differ by more
    middles = range(level.first + LEAST_RUNS, level.end - LEAST_RUNS + 1)
    middle = min(middles, key=lambda m: sum(_cost(values[a:b]) for a, b in _parts(level, m)))
    before, after = (Level(a, b, median(values[a:b])) for a, b in _parts(level, middle))
    if not _shift(sigma, before, after, quantile, least_effect).certain:
        return [level]
    parts = (_cut(values, part, sigma, quantile, least_effect) for part in (before, after))
    return [one for part in parts for one in part]


def _parts(level: Level, middle: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (level.first, middle), (middle, level.end)


def _cost(values: Sequence[float]) -> float:
    middle = median(values)
    return sum(abs(value - middle) for value in values)


def _shift(
    sigma: float, before: Level, after: Level, quantile: float, least_effect: float
) -> Shift:
    variance = sum(_of_median(one.runs) / one.runs for one in (before, after))
    deviation = sigma * math.sqrt(variance)
    distance = math.log(after.value / before.value)
    effect = math.exp(distance) - 1
    certain = abs(distance) > quantile * deviation and abs(effect) > least_effect
    return Shift(effect, NormalDist().inv_cdf(0.975) * deviation * (1 + effect), certain)


def _of_median(runs: int) -> float:
    """Variance of a median over that of a mean; of one or two runs they are the same."""
    return 1.0 if runs <= 2 else _OF_MEDIAN**2


def _quantile(runs: int, false_alarms: float) -> float:
    """Return from how many deviations on a difference is none of chance.

    More where few runs say how large a deviation is.
    """
    quantile = NormalDist().inv_cdf(1 - false_alarms / 2)
    return quantile * (1 + _UNCERTAIN / math.sqrt(max(runs - 1, 1)))
