"""The spools of a watch that goes on, as what is shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.watch.counter_spool import HALVES
from lanescope.watch.limits import WAYS, Ceilings, LinkLimit, link_limits, pcie_links
from lanescope.watch.live import LiveLink, LiveRates
from lanescope.watch.spool_tail import HalvesTail, SpoolTail, Tail
from lanescope.watch.summarise import PREFERRED
from lanescope.watch.timeline import Counters
from lanescope.watch.wire import default_model

#: How often is looked for new spools.
_FIND_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class LiveWay:
    """One direction of one GPU's link, now.

    Attributes
    ----------
    direction
        ``h2d`` or ``d2h``.
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
        self._links: dict[tuple[int, str], LiveLink] = {}
        self._limits: dict[int, tuple[LinkLimit, LinkLimit]] = {}
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
        ways = [
            way for gpu in sorted({g for g, _ in self._links}) for way in self._ways(gpu, now_ns)
        ]
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
        key = (counters.gpu, counters.source)
        if key not in self._links:
            link = next((ln.pcie for ln in pcie_links(self._machine, counters.gpu)), None)
            model = default_model(counters.source, link)
            self._links[key] = LiveLink(counters.interval_ns, model)
            self._limits[counters.gpu] = link_limits(self._machine, counters.gpu, self._ceilings)
        return self._links[key]

    def _ways(self, gpu: int, now_ns: int) -> list[LiveWay]:
        """What is shown of a GPU: the preferred of its sources that knows anything."""
        own = [(source, link) for (g, source), link in self._links.items() if g == gpu]
        order = {source: i for i, source in enumerate(PREFERRED)}
        source, link = min(own, key=lambda s: (not s[1].knows, order.get(s[0], len(order))))
        told = (source, link.interval_ns, link.peak_window_ns, link.lost_samples)
        both = zip(WAYS, link.rates(now_ns), self._limits[gpu], strict=True)
        return [LiveWay(gpu, way, *told, rates, limit) for way, rates, limit in both]
