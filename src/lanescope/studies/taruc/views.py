"""Which series a suite's charts show side by side: every kind of figure of the paper.

G. Baker, C. Lupo: TARUC: A Topology-Aware Resource Usability and Contention
Benchmark, ICPE 2017. A view names the fields that its charts compare, the most
telling ones first; `panels` makes as many charts of it as it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lanescope.copies import Operation, Pattern
from lanescope.machine import Machine
from lanescope.studies.taruc.contended import Scaling
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import Series

SeriesChoice = Callable[[Machine, Sequence[Series]], list[Series]]
ScalingChoice = Callable[[Machine, Sequence[Scaling]], list[Scaling]]

#: What may be drawn against the size.
TIME, RATE, LOAD = "time", "bandwidth", "load time"


@dataclass(frozen=True, slots=True)
class View:
    """One way to look at the series of a micro-benchmark.

    Attributes
    ----------
    key
        Part of the names of its charts' files.
    shows
        ``time``, ``bandwidth``, ``load time``, or several: a chart for each.
    order
        Fields of `Setting` or `Contention`, those first that a chart compares.
    apart
        Of these the ones whose values never share a chart.
    choose
        The series that it shows.
    main
        Whether its charts are the first that a reader should see.
    """

    bench: Benchmark
    key: str
    shows: tuple[str, ...]
    order: tuple[str, ...]
    choose: SeriesChoice
    apart: tuple[str, ...] = ()
    main: bool = True


@dataclass(frozen=True, slots=True)
class ScalingView:
    """One way to look at scalings; see `View`."""

    key: str
    order: tuple[str, ...]
    choose: ScalingChoice
    main: bool = True


def _all(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return list(series)


def _in_host(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return [s for s in series if s.setting.node is not None]


def _bound(machine: Machine, series: Sequence[Series]) -> list[Series]:
    """Of host memory, where threads and nodes make a difference at all."""
    return _in_host(machine, series) if _has_bindings(series) else []


def _of_gpus(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return [s for s in series if s.setting.node is None]


def _at_home(machine: Machine, series: Sequence[Series]) -> list[Series]:
    """One binding: the first thread that uses its own node's memory alone."""
    local = [s for s in series if s.setting.local]
    return [s for s in local if s.setting.thread == local[0].setting.thread]


def _near(machine: Machine, series: Sequence[Series]) -> list[Series]:
    """Host memory next to the GPU, and a thread that is there, too."""
    homes = {gpu.id: machine.nearest_node(gpu).id for gpu in machine.gpus}
    return [
        s
        for s in series
        if (home := homes.get(s.setting.gpu or "")) == s.setting.node
        and s.setting.thread in (None, home)
    ]


def _usual(series: Sequence[Series]) -> list[Series]:
    """The plainest pattern that there is: comparing patterns is another view's task."""
    patterns = {s.setting.pattern for s in series}
    usual = next((str(p) for p in Pattern if str(p) in patterns), "")
    return [s for s in series if s.setting.pattern == usual]


def _at_home_usual(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return _usual(_at_home(machine, series))


def _between(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return [s for s in series if s.setting.source != s.setting.destination]


def _inside(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return [s for s in series if s.setting.source == s.setting.destination]


def _near_usual(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return _usual(_near(machine, series))


def _usual_bound(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return _usual(series) if _has_bindings(series) else []


def _patterns_near(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return _near(machine, series) if len({s.setting.pattern for s in series}) > 1 else []


def _loads_at_home(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return _telling_first(_at_home(machine, series))


def _loads_bound(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return _telling_first(_bound(machine, series))


def _telling_first(series: Sequence[Series]) -> list[Series]:
    """Loads at random that lie far apart in front: no cache and no prefetching hides memory."""
    at_random = Operation.CHASE_RANDOM
    return sorted(series, key=lambda s: (s.setting.operation is not at_random, -s.setting.stride))


def _gathers(machine: Machine, series: Sequence[Series]) -> list[Series]:
    return [s for s in series if s.setting.operation is Operation.GATHER]


def _has_bindings(series: Sequence[Series]) -> bool:
    return len({(s.setting.thread, s.setting.node) for s in series if s.setting.node}) > 1


VIEWS = (
    View(Benchmark.OVERHEAD, "memory", (TIME,),
         ("memory", "source", "thread", "operation"), _in_host, ("operation",)),
    View(Benchmark.OVERHEAD, "binding", (TIME,),
         ("thread", "source", "memory", "operation"), _bound, ("operation",), main=False),
    View(Benchmark.OVERHEAD, "gpu", (TIME,),
         ("source", "memory", "thread", "operation"), _of_gpus, ("operation",)),
    View(Benchmark.HOST, "binding", (RATE, TIME),
         ("path", "thread", "caches", "pattern", "memory"), _all),
    View(Benchmark.HOST, "pattern", (RATE, TIME),
         ("pattern", "caches", "memory", "path", "thread"), _at_home, main=False),
    View(Benchmark.HOST, "memory", (RATE,),
         ("memory", "pattern", "caches", "path", "thread"),
         _at_home_usual, main=False),
    View(Benchmark.HOSTDEV, "memory", (RATE, TIME),
         ("memory", "timing", "direction", "gpu", "node", "thread", "pattern"), _near_usual),
    View(Benchmark.HOSTDEV, "gpu", (RATE,),
         ("gpu", "direction", "memory", "timing", "node", "thread", "pattern"), _near_usual),
    View(Benchmark.HOSTDEV, "binding", (RATE,),
         ("node", "thread", "direction", "memory", "timing", "gpu", "pattern"), _usual_bound),
    View(Benchmark.HOSTDEV, "pattern", (RATE,),
         ("pattern", "memory", "timing", "direction", "gpu", "node", "thread"), _patterns_near,
         main=False),
    View(Benchmark.PEER, "pair", (RATE, TIME),
         ("pair", "path", "route"),
         _between, ("pair",)),
    View(Benchmark.PEER, "inside", (RATE,), ("source", "route"),
         _inside),
    View(Benchmark.NURMA, "memory", (LOAD,),
         ("memory", "operation", "stride", "source", "thread"), _loads_at_home),
    View(Benchmark.NURMA, "stride", (LOAD,),
         ("stride", "operation", "memory", "source", "thread"), _loads_at_home, main=False),
    View(Benchmark.NURMA, "binding", (LOAD,),
         ("source", "thread", "operation", "memory", "stride"), _loads_bound),
    View(Benchmark.NURMA, "rate", (RATE,),
         ("memory", "stride", "source", "thread", "operation"), _gathers),
)  # fmt: skip


def _of_kind(kind: str) -> ScalingChoice:
    return lambda machine, scalings: [s for s in scalings if s.contention.kind == kind]


def _alone_and_all(machine: Machine, scalings: Sequence[Scaling]) -> list[Scaling]:
    """Each GPU alone, and the largest set."""
    chosen = _of_kind("pcie")(machine, scalings)
    largest = max((len(s.contention.members) for s in chosen), default=0)
    return [s for s in chosen if len(s.contention.members) in (1, largest)]


def _pairs(machine: Machine, scalings: Sequence[Scaling]) -> list[Scaling]:
    chosen = _of_kind("pcie")(machine, scalings)
    largest = max((len(s.contention.members) for s in chosen), default=0)
    return [s for s in chosen if 1 < len(s.contention.members) < largest]


def _largest(machine: Machine, scalings: Sequence[Scaling]) -> list[Scaling]:
    chosen = _of_kind("pcie")(machine, scalings)
    largest = max((len(s.contention.members) for s in chosen), default=0)
    chosen = [s for s in chosen if len(s.contention.members) == largest]
    return chosen if len({s.contention.where for s in chosen}) > 1 else []


SCALING_VIEWS = (
    ScalingView("memory", ("operation", "who"), _of_kind("memory")),
    ScalingView("sockets", ("who", "operation"), _of_kind("sockets")),
    ScalingView("pcie", ("who", "direction", "where"), _alone_and_all),
    ScalingView("pairs", ("who", "direction", "where"), _pairs, main=False),
    ScalingView("where", ("where", "direction", "who"), _largest),
)


#: More curves than this in a panel cannot be told apart.
MOST_CURVES = 8

T = TypeVar("T")


@dataclass(frozen=True)
class Panel(Generic[T]):
    """Some series that are drawn together.

    Attributes
    ----------
    fixed
        Of the fields that vary between panels, the values of this one.
    varying
        Fields that tell its curves apart, the most telling one first.
    """

    fixed: dict[str, Hashable]
    varying: tuple[str, ...]
    members: tuple[T, ...]


def panels(
    series: Sequence[T],
    order: Sequence[str],
    value: Callable[[T, str], Hashable],
    apart: Sequence[str] = (),
    most: int = MOST_CURVES,
) -> tuple[Panel[T], ...]:
    """Return panels that hold all series, each once.

    Parameters
    ----------
    order
        Every field that may tell series apart, those first that a panel should
        compare. As many as fit are curves of one panel; the others make panels.
    value
        Returns a field of a series.
    apart
        Fields whose values never share a panel.
    """
    live = [f for f in order if len({value(s, f) for s in series}) > 1]
    inside: list[str] = []
    for field in (f for f in live if f not in apart):
        if _curves(series, apart, [*inside, field], value) <= most:
            inside.append(field)
    outside = [f for f in live if f not in inside]
    found: dict[tuple[Hashable, ...], list[T]] = defaultdict(list)
    for one in series:
        found[tuple(value(one, f) for f in outside)].append(one)
    return tuple(
        Panel(
            dict(zip(outside, key, strict=True)), _telling(members, inside, value), tuple(members)
        )
        for key, members in found.items()
    )


def _curves(
    series: Sequence[T],
    apart: Sequence[str],
    fields: Sequence[str],
    value: Callable[[T, str], Hashable],
) -> int:
    """The most curves that a panel of one set of values `apart` would have."""
    found: dict[Hashable, set[Hashable]] = defaultdict(set)
    for one in series:
        key = tuple(value(one, f) for f in apart)
        found[key].add(tuple(value(one, f) for f in fields))
    return max(map(len, found.values()))


def _telling(
    members: Sequence[T], fields: Sequence[str], value: Callable[[T, str], Hashable]
) -> tuple[str, ...]:
    """The fewest of the first fields that tell a panel's curves apart; one at least, for names."""
    telling: list[str] = []
    for field in fields:
        if _curves(members, (), [*telling, field], value) > _curves(members, (), telling, value):
            telling.append(field)
    return tuple(telling) or tuple(fields[:1])
