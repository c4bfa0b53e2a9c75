"""What a probe tells: when the link was used by others, and when the GPU was busy.

Nothing here is known of who was busy, only how much longer copies took than they take
undisturbed. A round's copies are timed by the host, whose own interruptions look the same: so a
few slow ones are none that is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from lanescope.watch.codes import FloatArray, IntArray
from lanescope.watch.probe import PROBE_WAYS, Probe

#: Undisturbed is the median of the fastest quarter: somewhere the program rests.
_FASTEST = 0.25
#: The link counts as used while a copy has less than this share of its undisturbed bandwidth.
_FALLEN = 0.6
#: A copy that takes up to so many times the undisturbed time is taken to be undisturbed.
_JITTER = 1.25
#: The GPU or its link count as busy while the delay is so many times the undisturbed one.
_RISEN = 3.0
#: So many slow copies in a row are an episode, one fast copy between two not counted; fewer are
#: where they took longer together than the host's interruptions do, which is when somebody
#: else's large copy or kernel held up a single one.
_FEWEST = 4
_BRIDGED = 1
_LONG_NS = 1_000_000


class Sign(Enum):
    """What an episode was seen by."""

    LINK = "link used"
    DELAY = "delay raised"


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """How long copies of one direction take while nobody else uses the link; None if unknown.

    Attributes
    ----------
    copy_ns, delay_ns
        Of the long and of the short copy.
    """

    copy_ns: float | None
    delay_ns: float | None


@dataclass(frozen=True, slots=True)
class Episode:
    """A time in which copies of one direction were held up.

    Attributes
    ----------
    start_ns, end_ns
        From the begin of the first slow record to the end of the last, since 1970.
    records
        Slow records in it.
    slowdown
        How many times the undisturbed time its slow copies took on average.
    """

    gpu: int
    direction: str
    sign: Sign
    start_ns: int
    end_ns: int
    records: int
    slowdown: float


def undisturbed(probe: Probe) -> Undisturbed:
    """Return what the fastest copies of a probe took, which holds one direction."""
    return Undisturbed(_fast(probe.copy_ns), _fast(probe.delay_ns))


def episodes(probe: Probe, direction: int) -> tuple[Episode, ...]:
    """Return when copies of one direction were held up, the earliest first."""
    own = probe.one_way(direction)
    rest = undisturbed(own)
    signs = (
        (Sign.LINK, own.copy_ns, rest.copy_ns, 1 / _FALLEN),
        (Sign.DELAY, own.delay_ns, rest.delay_ns, _RISEN),
    )
    found: list[Episode] = []
    for sign, took, usual, factor in signs:
        if usual is not None:
            found += _episodes(own, PROBE_WAYS[direction], sign, took, usual, factor)
    return tuple(sorted(found, key=lambda episode: episode.start_ns))


def used_by_others(
    probe: Probe, direction: int, start_ns: int, end_ns: int, window_ns: int
) -> FloatArray:
    """Return an estimate of the share of the link that others used, window by window.

    Of the time that copies took, what they would not have taken undisturbed; whoever waits is
    taken to wait for the link. Without a pause a record weighs as much as it took, as records
    fill the time; with one all weigh the same. A record counts where its long copy begins.
    Not a number where no copy began.
    """
    own = probe.one_way(direction)
    count = max(-(-(end_ns - start_ns) // window_ns), 0)
    place = (own.begin_ns + own.delay_ns - start_ns) // window_ns
    inside = (place >= 0) & (place < count)
    shares, weights = shares_and_weights(own)
    weighed = np.bincount(place[inside], (shares * weights)[inside], minlength=count)
    weight = np.bincount(place[inside], weights[inside], minlength=count)
    found: FloatArray = weighed / np.where(weight > 0, weight, np.nan)
    return found


def shares_and_weights(own: Probe) -> tuple[FloatArray, FloatArray]:
    """Return what share of the link each record says others used, and what it weighs.

    The probe holds one direction.
    """
    usual = undisturbed(own).copy_ns
    took = own.copy_ns.astype(np.float64)
    weights = took if own.period_ns == 0 else np.ones(len(own))
    if usual is None:
        return np.full(len(own), np.nan), weights
    shares = np.where(took > usual * _JITTER, 1.0 - usual / np.maximum(took, usual), 0.0)
    return shares, weights


def _fast(times_ns: IntArray) -> float | None:
    """Median of the fastest quarter of those in which time passed."""
    passed = times_ns[times_ns > 0]
    if passed.size == 0:
        return None
    quarter = max(int(passed.size * _FASTEST), 1)
    return float(np.median(np.partition(passed, quarter - 1)[:quarter]))


def _episodes(
    own: Probe, way: str, sign: Sign, took: IntArray, usual: float, factor: float
) -> list[Episode]:
    slow = np.flatnonzero(took > usual * factor)
    if slow.size == 0:
        return []
    begins = np.concatenate(([0], np.flatnonzero(np.diff(slow) > _BRIDGED + 1) + 1))
    counts = np.diff(np.append(begins, slow.size))
    sums = np.add.reduceat(took[slow], begins)
    told = np.flatnonzero((counts >= _FEWEST) | (sums - counts * usual >= _LONG_NS))
    starts = own.begin_ns[slow[begins]]
    ends = own.end_ns[slow[begins + counts - 1]]
    return [
        Episode(
            own.gpu,
            way,
            sign,
            int(starts[i]),
            int(ends[i]),
            int(counts[i]),
            float(sums[i] / counts[i] / usual),
        )
        for i in told
    ]
