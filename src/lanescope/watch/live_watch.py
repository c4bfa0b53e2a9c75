"""The spools of a watch that goes on, as what is shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.watch.best import PREFERRED
from lanescope.watch.counter_spool import HALVES
from lanescope.watch.limits import WAYS, Ceilings, LinkLimit, link_limits, pcie_links
from lanescope.watch.live import LiveLink, LiveRates
from lanescope.watch.nvlink import NVLINK_WAYS, nvlink_limits
from lanescope.watch.nvlink_ways import PAYLOAD
from lanescope.watch.spool_tail import HalvesTail, SpoolTail, Tail
from lanescope.watch.timeline import LINKS, NVLINK, Counters
from lanescope.watch.wire import default_model

#: How often is looked for new spools.
_FIND_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class LiveWay:
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
    ways: tuple[LiveWay, ...]
    problems: tuple[str, ...]


class LiveWatch:
    """Looks again and again at spools that grow.

    Parameters
    ----------
    folder
        That of the spools.
    ceilings
        What earlier runs measured of the links.
    """

    def __init__(self, folder: Path, machine: Machine, ceilings: Ceilings | None = None) -> None:
        self._folder, self._machine, self._ceilings = folder, machine, ceilings
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
            except (InputError, OSError) as error:
                del self._tails[name]
                self._problems[name] = str(error)
        there = {(gpu, LINKS.index(link), link) for gpu, link, _ in self._links}
        ways = [way for gpu, _, link in sorted(there) for way in self._ways(gpu, link, now_ns)]
        seconds = (now_ns - self._begin_ns) * 1e-9
        return LiveFrame(seconds, tuple(ways), tuple(self._problems.values()))

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
                self._tails[whole] = HalvesTail(SpoolTail(path), SpoolTail(other), name)

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

    def _ways(self, gpu: int, kind: str, now_ns: int) -> list[LiveWay]:
        """What is shown of a GPU's link: the preferred of its sources that knows anything."""
        own = [(s, link) for (g, k, s), link in self._links.items() if (g, k) == (gpu, kind)]
        order = {source: i for i, source in enumerate(PREFERRED)}
        source, link = min(own, key=lambda s: (not s[1].knows, order.get(s[0], len(order))))
        told = (source, link.interval_ns, link.peak_window_ns, link.lost_samples)
        names = NVLINK_WAYS if kind == NVLINK else WAYS
        both = zip(names, link.rates(now_ns), self._limits[gpu, kind], strict=True)
        return [LiveWay(gpu, way, *told, rates, limit) for way, rates, limit in both]
