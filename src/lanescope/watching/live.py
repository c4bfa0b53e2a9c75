"""The spools of a watch that goes on, as what is shown of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.trace.codes import FloatArray, IntArray
from lanescope.trace.counter_spool import HALVES, DuplexTail, SpoolTail, Tail
from lanescope.trace.limits import (
    DIRECTIONS,
    NVLINK_DIRECTIONS,
    Ceilings,
    LinkLimit,
    link_limits,
    nvlink_limits,
    pcie_links,
)
from lanescope.trace.nvlink_rates import PAYLOAD
from lanescope.trace.timeline import LINKS, NVLINK, PREFERRED, Counters
from lanescope.trace.windows import LEAST_KNOWN, WindowSplitter
from lanescope.trace.wire import RESOLUTION, WireModel, default_model, payload_records, settle
from lanescope.units.sizes import bandwidth_gbs, bandwidths_gbs

#: What is shown as the rate now is the mean over so long.
SLOT_NS = 100_000_000
#: How far back the history goes, and what a point of it is a mean of.
HISTORY_SECONDS = 60
_SECOND_NS = 1_000_000_000
_SLOTS_PER_SECOND = _SECOND_NS // SLOT_NS
#: The second that goes on is kept beside whole ones.
_SLOTS = (HISTORY_SECONDS + 1) * _SLOTS_PER_SECOND
#: Peaks are over windows of 1 ms, or of the first of these that a sample fits into.
_PEAK_WINDOWS_NS = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000, SLOT_NS)
#: The history has a new point each second, which is shown so much later at most.
_HISTORY_EVERY_NS = 250_000_000
#: Records come in bursts; what is older than this is not the rate now.
_LATEST_NS = 1_000_000_000
#: Rows of what is kept for each slot: payload bytes h2d and d2h, known nanoseconds, and the
#: highest rate in GB/s of each direction.
_KNOWN, _PEAKS = 2, slice(3, 5)


@dataclass(frozen=True, slots=True)
class LiveRates:
    """What one direction of a link carries, in GB/s of payload; None where it is not known.

    Attributes
    ----------
    now_gbs
        Mean over the last 100 ms that are whole.
    peak_second_gbs, peak_gbs
        The highest rate over `LiveLink.peak_window_ns`, in the last second and ever.
    history_gbs
        Mean over each of the last `HISTORY_SECONDS`, the oldest first; NaN where not known.
    """

    now_gbs: float | None
    peak_second_gbs: float | None
    peak_gbs: float | None
    history_gbs: FloatArray


class LiveLink:
    """Both directions of the link of one GPU by one source, fed piece by piece.

    Parameters
    ----------
    interval_ns
        How far apart samples are.
    resolution
        Traffic below this share of the other way's is none, as `settle` says.
    """

    def __init__(self, interval_ns: int, model: WireModel, resolution: float = RESOLUTION) -> None:
        fitting = (window for window in _PEAK_WINDOWS_NS if window >= interval_ns)
        self.peak_window_ns = next(fitting, SLOT_NS)
        self.interval_ns = interval_ns
        self.lost_samples = 0
        self._model, self._resolution = model, resolution
        self._splitter = WindowSplitter(self.peak_window_ns, 0, self._closed)
        self._end_ns: int | None = None
        self._slots = np.zeros((5, _SLOTS))
        self._newest = -1
        self._peaks = np.zeros(2)
        self._told: tuple[int, tuple[FloatArray, ...]] = (-1, ())

    @property
    def knows(self) -> bool:
        """Whether anything was counted."""
        return self._newest >= 0

    def add(self, counters: Counters) -> None:
        """Add records that follow those before."""
        self.interval_ns = max(self.interval_ns, counters.interval_ns)
        self._count_lost(counters)
        for end_ns, columns in payload_records(counters, self._model, self._end_ns):
            begin = int(end_ns[0]) if self._end_ns is None else self._end_ns
            self._splitter.add(begin, end_ns, columns)
            self._end_ns = int(end_ns[-1])

    def rates(self, now_ns: int) -> tuple[LiveRates, LiveRates]:
        """Return what both directions (h2d, d2h) carry at a time, nanoseconds since 1970."""
        if not self.knows:
            nothing = LiveRates(None, None, None, np.full(HISTORY_SECONDS, np.nan))
            return nothing, nothing
        if self._told[0] != now_ns // _HISTORY_EVERY_NS:
            self._told = (now_ns // _HISTORY_EVERY_NS, self._history(now_ns))
        return self._rates(0, now_ns), self._rates(1, now_ns)

    def _count_lost(self, counters: Counters) -> None:
        before = counters.end_ns[0] if self._end_ns is None else self._end_ns
        lasted = np.diff(counters.end_ns, prepend=before)[~counters.known]
        self.lost_samples += int(np.rint(lasted / self.interval_ns).sum())

    def _closed(self, numbers: IntArray, rows: FloatArray, times: IntArray) -> None:
        """Take windows that are whole into their slots."""
        shown = _SLOTS * SLOT_NS // self.peak_window_ns  # of long records only the end is
        ends = numbers + times
        begins = np.maximum(numbers, ends[-1] - shown)
        widths = np.maximum(ends - begins, 0)
        rows = np.repeat(rows.T, widths, axis=1)
        within = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
        numbers = np.repeat(begins, widths) + within
        known = rows[2] >= LEAST_KNOWN * self.peak_window_ns
        if not known.any():
            return
        slots = numbers[known] * self.peak_window_ns // SLOT_NS
        fresh = slots > slots[-1] - _SLOTS
        slots, rows = slots[fresh], rows[:, known][:, fresh]
        self._forget_until(int(slots[-1]))
        # sums are of what was not settled: there errors cancel
        directions = settle(rows[0], rows[1], self._resolution)
        gbs = np.stack([bandwidths_gbs(direction, rows[2] * 1e-9) for direction in directions])
        places = slots % _SLOTS
        for row, values in zip(self._slots[:3], rows, strict=True):
            np.add.at(row, places, values)
        for row, values in zip(self._slots[_PEAKS], gbs, strict=True):
            np.maximum.at(row, places, values)
        self._peaks = np.maximum(self._peaks, gbs.max(axis=1))

    def _forget_until(self, slot: int) -> None:
        """Make room for the slots up to a new one."""
        count = min(slot - self._newest, _SLOTS)
        if count > 0:
            self._slots[:, np.arange(slot - count + 1, slot + 1) % _SLOTS] = 0
            self._newest = slot

    def _rates(self, direction: int, now_ns: int) -> LiveRates:
        whole = self._newest - 1  # the newest is still being filled
        late = now_ns - (whole + 1) * SLOT_NS > _LATEST_NS
        now = self._slots[:, whole % _SLOTS]
        payload = float(settle(now[0], now[1], self._resolution)[direction])
        known = now[_KNOWN] >= LEAST_KNOWN * SLOT_NS and not late
        last_second = np.arange(self._newest - _SLOTS_PER_SECOND, self._newest + 1) % _SLOTS
        peak = float(self._slots[_PEAKS][direction, last_second].max())
        return LiveRates(
            bandwidth_gbs(payload, now[_KNOWN] * 1e-9) if known else None,
            None if late else peak,
            float(self._peaks[direction]),
            self._told[1][direction],
        )

    def _history(self, now_ns: int) -> tuple[FloatArray, ...]:
        """Mean over each of the last whole seconds, both ways."""
        first = (now_ns // _SECOND_NS - HISTORY_SECONDS) * _SLOTS_PER_SECOND
        numbers = first + np.arange(HISTORY_SECONDS * _SLOTS_PER_SECOND)
        there = (numbers <= self._newest) & (numbers > self._newest - _SLOTS)
        chosen = np.where(there, self._slots[:3, numbers % _SLOTS], 0.0)
        seconds = chosen.reshape(3, HISTORY_SECONDS, _SLOTS_PER_SECOND).sum(axis=2)
        lasted = seconds[_KNOWN] * 1e-9
        known = lasted >= LEAST_KNOWN
        history = np.full((2, HISTORY_SECONDS), math.nan)
        settled = settle(seconds[0], seconds[1], self._resolution)
        for times, payload in zip(history, settled, strict=True):
            times[known] = bandwidths_gbs(payload[known], lasted[known])
        return tuple(history)


#: How often is looked for new spools.
_FIND_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class LiveDirection:
    """One direction of one GPU's link, now.

    Attributes
    ----------
    direction
        ``h2d`` or ``d2h``; over all NVLinks of the GPU ``nvlink-rx`` or ``nvlink-tx``.
    source, interval_ns
        What counts, and how often.
    peak_window_ns
        What peaks are the means of.
    lost_samples
        Of the source, until now.
    """

    gpu: int
    direction: str
    source: str
    interval_ns: int
    peak_window_ns: int
    lost_samples: int
    rates: LiveRates
    limit: LinkLimit

    @property
    def share_of_limit(self) -> float | None:
        """The rate now as a share of what the link can carry; None when one is unknown."""
        if self.rates.now_gbs is None or not self.limit.gbs:
            return None
        return self.rates.now_gbs / self.limit.gbs


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """What is known of a watch at one moment.

    Attributes
    ----------
    seconds
        Since it was first looked at.
    problems
        Spools that cannot be shown, and why.
    """

    seconds: float
    directions: tuple[LiveDirection, ...]
    problems: tuple[str, ...]


class LiveWatch:
    """Looks again and again at spools that grow.

    Parameters
    ----------
    folder
        That of the spools.
    ceilings
        What earlier runs measured of the links.
    take
        Is given all that is read.
    """

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        ceilings: Ceilings | None = None,
        take: Callable[[Counters], None] | None = None,
    ) -> None:
        self._folder, self._machine, self._ceilings, self._take = folder, machine, ceilings, take
        self._begin_ns: int | None = None
        self._found_ns = -_FIND_NS
        self._tails: dict[str, Tail] = {}
        self._links: dict[tuple[int, str, str], LiveLink] = {}
        self._limits: dict[tuple[int, str], tuple[LinkLimit, LinkLimit]] = {}
        self._problems: dict[str, str] = {}

    def look(self, now_ns: int) -> LiveFrame:
        """Return what is known at a time, nanoseconds since 1970; what cannot be read is told."""
        self._begin_ns = now_ns if self._begin_ns is None else self._begin_ns
        if now_ns - self._found_ns >= _FIND_NS:
            self._find()
            self._found_ns = now_ns
        for name, tail in list(self._tails.items()):
            try:
                for counters in tail.read():
                    self._link(counters).add(counters)
                    if self._take is not None:
                        self._take(counters)
            except (InputError, OSError) as error:
                del self._tails[name]
                self._problems[name] = str(error)
        there = {(gpu, LINKS.index(link), link) for gpu, link, _ in self._links}
        directions = [
            direction
            for gpu, _, link in sorted(there)
            for direction in self._directions(gpu, link, now_ns)
        ]
        seconds = (now_ns - self._begin_ns) * 1e-9
        return LiveFrame(seconds, tuple(directions), tuple(self._problems.values()))

    def done(self) -> list[tuple[Path, int]]:
        """Return the spools that know both directions, and up to which byte each has been read."""
        return [tail.done for tail in self._tails.values() if isinstance(tail, SpoolTail)]

    def _find(self) -> None:
        """Find spools that were not there before; halves when both are."""
        down, up = HALVES
        for path in sorted(self._folder.glob("*.g*.bin")):
            source = path.name.partition(".")[0]
            whole = path.name.replace(source, source.removesuffix(down).removesuffix(up), 1)
            other = path.with_name(path.name.replace(down, up, 1))
            if whole in self._tails or whole in self._problems:
                continue
            if whole == path.name:
                self._tails[whole] = SpoolTail(path)
            elif other != path and other.exists():
                name = source.removesuffix(down)
                self._tails[whole] = DuplexTail(SpoolTail(path), SpoolTail(other), name)

    def _link(self, counters: Counters) -> LiveLink:
        gpu, kind = counters.gpu, counters.link
        key = (gpu, kind, counters.source)
        if key not in self._links and kind == NVLINK:
            self._links[key] = LiveLink(counters.interval_ns, PAYLOAD, resolution=0.0)
            self._limits[gpu, kind] = nvlink_limits(self._machine, gpu, self._ceilings)
        elif key not in self._links:
            link = next((ln.pcie for ln in pcie_links(self._machine, gpu)), None)
            model = default_model(counters.source, link, own=counters.own is not None)
            self._links[key] = LiveLink(counters.interval_ns, model)
            self._limits[gpu, kind] = link_limits(self._machine, gpu, self._ceilings)
        return self._links[key]

    def _directions(self, gpu: int, kind: str, now_ns: int) -> list[LiveDirection]:
        """What is shown of a GPU's link: the preferred of its sources that knows anything."""
        own = [(s, link) for (g, k, s), link in self._links.items() if (g, k) == (gpu, kind)]
        order = {source: i for i, source in enumerate(PREFERRED)}
        source, link = min(own, key=lambda s: (not s[1].knows, order.get(s[0], len(order))))
        about = (source, link.interval_ns, link.peak_window_ns, link.lost_samples)
        names = NVLINK_DIRECTIONS if kind == NVLINK else DIRECTIONS
        both = zip(names, link.rates(now_ns), self._limits[gpu, kind], strict=True)
        return [
            LiveDirection(gpu, direction, *about, rates, limit) for direction, rates, limit in both
        ]
