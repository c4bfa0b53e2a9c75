"""Opposing copies of which one direction loses far more than the other."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from lanescope.document.finding import Finding
from lanescope.findings.machine.evidence import Matrix, MeasuredCopy, Run, cut, in_order, names
from lanescope.findings.machine.memory import link_limits

#: One GPU on its own link loses 6 to 9 % in both directions, nearly alike; two GPUs on an
#: H200 host were 25 % apart. In between lies what different packet sizes can do.
_APART = 1.15
#: What the last-level cache of any server holds of several copies.
_CACHED = "16MiB"


@dataclass(frozen=True, slots=True)
class _Share:
    """What a copy keeps of its rate alone, and of what shared links leave of that; shares."""

    seen: MeasuredCopy
    of_alone: float
    of_links: float


@dataclass(frozen=True, slots=True)
class _Opposing:
    """Copies that ran at once: host to device, and device to host."""

    down: tuple[_Share, ...]
    up: tuple[_Share, ...]

    @property
    def copies(self) -> tuple[_Share, ...]:
        return (*self.down, *self.up)

    @property
    def name(self) -> str:
        return self.down[0].seen.experiment.name

    @property
    def reads_lose(self) -> bool:
        return self._ratio < 1

    @property
    def apart(self) -> float:
        return max(self._ratio, 1 / self._ratio)

    @property
    def _ratio(self) -> float:
        return fmean(k.of_links for k in self.down) / fmean(k.of_links for k in self.up)


def asymmetric_opposing(
    matrix: Matrix, explained: frozenset[str]
) -> tuple[tuple[Finding, ...], frozenset[str]]:
    """Return a diagnosis of experiments with an unequal loss, and those experiments' names.

    Parameters
    ----------
    explained
        GPUs whose own rates have a known cause.
    """
    every = (_opposing(matrix, run, explained) for run in matrix.together)
    found = [o for o in every if o is not None and o.apart > _APART]
    by_loser = [[o for o in found if o.reads_lose is loser] for loser in (True, False)]
    return (
        tuple(_diagnosis(group) for group in by_loser if group),
        frozenset(o.name for o in found),
    )


def _opposing(matrix: Matrix, run: Run, explained: frozenset[str]) -> _Opposing | None:
    if not all(copy.over_host for copy in run):
        return None
    bounds = link_limits(matrix.machine, run)
    copies = [
        kept
        for copy, bound in zip(run, bounds, strict=True)
        if copy.gpu not in explained and (kept := _share(matrix, copy, bound)) is not None
    ]
    down, up = (tuple(k for k in copies if k.seen.down is route) for route in (True, False))
    return _Opposing(down, up) if down and up else None


def _share(matrix: Matrix, copy: MeasuredCopy, bound: float | None) -> _Share | None:
    alone = matrix.of_routes(copy.route)
    own_bound = None if alone is None else link_limits(matrix.machine, alone)[0]
    if alone is None or bound is None or own_bound is None:
        return None
    share = copy.gbs / alone[0].gbs
    return _Share(copy, share, min(1.0, share / min(1.0, bound / own_bound)))


def _diagnosis(found: list[_Opposing]) -> Finding:
    worst = max(found, key=lambda o: o.apart)
    gpus, nodes = (in_order(getattr(k.seen, end) for k in worst.copies) for end in ("gpu", "host"))
    loser, winner = ("host to device", "device to host")[:: 1 if worst.reads_lose else -1]
    low, high = (worst.down, worst.up)[:: 1 if worst.reads_lose else -1]
    return Finding(
        kind="asymmetric-opposing",
        sentence=f"With {names(gpus)} copying both ways at once, {loser} keeps {_mean(low)} of "
        f"its rate alone and {winner} {_mean(high)}. {_why(worst.reads_lose, gpus, nodes)} "
        "A tool that shows only one of the directions hides this: host_to_all_bidirectional of "
        "nvbandwidth tells host to device alone, all_to_host_bidirectional device to host alone. "
        f"Buffers of {_CACHED} stay in the CPU's cache: where the command below brings the rates "
        "back together, the host's memory it is.",
        evidence=cut([_line(o) for o in sorted(found, key=lambda o: -o.apart)]),
        confirm=f"lanescope copy '{_both_directions(worst)}' --size {_CACHED}",
        remedy="This need not be a fault: count on these rates when all GPUs copy both ways. Where "
        "it matters, let the directions take turns, or spread the buffers over the nodes.",
        parts=(*nodes, *gpus),
        fault=False,
    )


def _why(reads_lose: bool, gpus: tuple[str, ...], nodes: tuple[str, ...]) -> str:
    limit = f"the limit is the memory and I/O fabric of {names(nodes)}, not a link."
    if len(gpus) == 1:
        limit = "the link's flow control or its root port is the limit, not its width."
    if reads_lose:
        return (
            "A GPU that reads host memory has to wait for each answer and loses against writes, "
            f"which need none: {limit}"
        )
    return f"The writes into host memory find it busy with reads: {limit}"


def _both_directions(found: _Opposing) -> str:
    ends = dict.fromkeys((k.seen.host, k.seen.gpu) for k in found.copies)
    return ", ".join(f"{host} <-> {gpu}" for host, gpu in ends)


def _mean(copies: tuple[_Share, ...]) -> str:
    return f"{fmean(k.of_alone for k in copies) * 100:.0f} %"


def _line(found: _Opposing) -> str:
    rates = (
        f"{k.seen.copy.path} {k.seen.gbs:.1f} GB/s ({k.of_alone * 100:.0f} % of alone)"
        for k in found.copies
    )
    return f"{found.name}: {', '.join(rates)}"
