"""What NUMA nodes and their memory make of copies: a far one, a slow one, both directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean

from lanescope.copies.limit import limits
from lanescope.document.contents import Finding
from lanescope.findings.machine.evidence import (
    MeasuredCopy,
    MeasuredSet,
    PathMatrix,
    cut,
    in_order,
    names,
    percent_below,
)
from lanescope.machine import LinkKind, Machine
from lanescope.machine.part_names import part_number
from lanescope.results.verdict import EXPECTED_SHARE

#: A far node always costs some latency; only more than this is worth binding a program for.
_FAR_SHARE = 0.90
#: The node that is told to be near must not lose to another by more than noise.
_NEAR_SHARE = 0.95

_SlowAndFast = tuple[MeasuredCopy, MeasuredCopy]  # the slower copy and the faster one


def far_numa(matrix: PathMatrix) -> tuple[Finding, ...]:
    """Return a diagnosis for each pair of nodes where the choice matters to some GPUs."""
    far: dict[tuple[str, str], list[_SlowAndFast]] = {}
    wrong: dict[tuple[str | None, str], list[_SlowAndFast]] = {}
    for gpu in matrix.machine.gpus:
        near = None if gpu.node is None else f"h{gpu.node}"
        for down in (True, False):
            copies = matrix.host_copies(gpu.id, down)
            if len(copies) < 2:
                continue
            fastest = max(copies.values(), key=lambda copy: copy.gbs)
            if near is None or near not in copies:
                slowest = min(copies.values(), key=lambda copy: copy.gbs)
                if near is None and slowest.gbs < _FAR_SHARE * fastest.gbs:
                    wrong.setdefault((None, fastest.host), []).append((slowest, fastest))
            elif copies[near].gbs < _NEAR_SHARE * fastest.gbs:
                wrong.setdefault((near, fastest.host), []).append((copies[near], fastest))
            else:
                for node, copy in copies.items():
                    if copy.gbs < _FAR_SHARE * copies[near].gbs:
                        far.setdefault((near, node), []).append((copy, copies[near]))
    return (
        *(_wrong(matrix, near, best, pairs) for (near, best), pairs in wrong.items()),
        *(_far(matrix, near, node, pairs) for (near, node), pairs in far.items()),
    )


def _wrong(matrix: PathMatrix, near: str | None, best: str, pairs: list[_SlowAndFast]) -> Finding:
    gpus = names(_gpus(pairs))
    if near is None:
        what = f"The machine does not tell which node is near {gpus}, but {best} is the faster one"
    else:
        what = f"The machine says that {near} is near {gpus}, but {best} is faster"
    return _far_numa(matrix, what, best, (best if near is None else near), pairs)


def _far(matrix: PathMatrix, near: str, node: str, pairs: list[_SlowAndFast]) -> Finding:
    gpus = _gpus(pairs)
    verb = "is" if len(gpus) == 1 else "are"
    what = f"{names(gpus)} {verb} near {near} and slower from and to {node}"
    return _far_numa(matrix, what, near, node, pairs)


def _far_numa(
    matrix: PathMatrix, what: str, best: str, node: str, pairs: list[_SlowAndFast]
) -> Finding:
    slow, fast = min(pairs, key=lambda pair: pair[0].gbs / pair[1].gbs)
    gpus = _gpus(pairs)
    addresses = [matrix.machine.gpu(part_number(gpu)).pci_address for gpu in gpus]
    files = " ".join(f"/sys/bus/pci/devices/{a.lower()}/numa_node" for a in addresses if a)
    return Finding(
        kind="far-numa",
        sentence=f"{what}: memory of the wrong node costs up to "
        f"{percent_below(slow.gbs, fast.gbs)}.",
        evidence=cut([f"{s.text}; {f.copy.path} {f.gbs:.1f} GB/s" for s, f in pairs]),
        confirm="nvidia-smi topo -m" + (f"; cat {files}" if files else ""),
        remedy=f"Bind programs that use {names(gpus)} to {best}: "
        f"numactl --cpunodebind={best[1:]} --membind={best[1:]} PROGRAM.",
        parts=(*gpus, node),
        fault=False,
    )


def _gpus(pairs: list[_SlowAndFast]) -> tuple[str, ...]:
    return in_order(slow.gpu for slow, _ in pairs)


#: GPUs on links of their own get 95 % and more together of what they get one by one; below
#: this they clearly lack something that they share.
_LOST_SHARE = 0.85
#: A smaller loss counts where the sum is what the node's memory itself gives, give or take
#: the 10 % by which copies of cores and of GPUs differ.
_SMALL_LOSS_SHARE = 0.95
_LIKE_MEMORY = 0.10


@dataclass(frozen=True, slots=True)
class _Together:
    """Copies of several GPUs with one node, and what the links would let them reach."""

    node: str
    copies: MeasuredSet
    gbs: float
    expected_gbs: float

    @property
    def share(self) -> float:
        return self.gbs / self.expected_gbs


def host_memory_bound(
    matrix: PathMatrix, explained: frozenset[str], known: frozenset[str]
) -> tuple[Finding, ...]:
    """Return a diagnosis for each node whose memory holds all GPUs back together.

    Parameters
    ----------
    explained
        GPUs whose own rates have a known cause.
    known
        Experiments whose loss has a known cause, by name.
    """
    worst: dict[str, _Together] = {}
    for run in matrix.together:
        if run[0].experiment.name in known or not all(copy.over_host for copy in run):
            continue
        for found in _by_node(matrix, run, explained):
            if _bound(matrix, found) and (
                found.node not in worst or found.share < worst[found.node].share
            ):
                worst[found.node] = found
    return tuple(_memory_bound(matrix, found) for _, found in sorted(worst.items()))


def link_limits(machine: Machine, run: MeasuredSet) -> tuple[float | None, ...]:
    """Return what the links alone, without the memory of nodes, let each copy reach; in GB/s."""
    endless = replace(machine, nodes=tuple(replace(n, memory_gbs=None) for n in machine.nodes))
    return tuple(limit.gbs for limit in limits(endless, run[0].experiment))


def _by_node(
    matrix: PathMatrix, run: MeasuredSet, explained: frozenset[str]
) -> Iterator[_Together]:
    bounds = link_limits(matrix.machine, run)
    near = {gpu.id: f"h{gpu.node}" for gpu in matrix.machine.gpus}
    for node in in_order(copy.host for copy in run):
        # Copies with a far node may be held back by the link between the sockets.
        here = [
            (copy, bound)
            for copy, bound in zip(run, bounds, strict=True)
            if copy.host == node and near[copy.gpu] == node and copy.gpu not in explained
        ]
        if len({copy.gpu for copy, _ in here}) < 2:
            continue
        expected = [_expected(matrix, run, copy, bound) for copy, bound in here]
        if None not in expected:
            total = sum(e for e in expected if e is not None)
            yield _Together(
                node, tuple(copy for copy, _ in here), sum(s.gbs for s, _ in here), total
            )


def _expected(
    matrix: PathMatrix, run: MeasuredSet, copy: MeasuredCopy, bound: float | None
) -> float | None:
    """Return what a copy would reach if only links were shared, from its GPU's run on its own."""
    own = matrix.of_routes(*(other.route for other in run if other.gpu == copy.gpu))
    if own is None or bound is None:
        return None
    place = [other.route for other in own].index(copy.route)
    alone, own_bound = own[place], link_limits(matrix.machine, own)[place]
    least = EXPECTED_SHARE[LinkKind.PCIE][1 if len(own) > 1 else 0]
    if own_bound is None or alone.gbs < least * own_bound:
        return None  # this GPU does not reach its link even by itself
    return alone.gbs * min(1.0, bound / own_bound)


def _bound(matrix: PathMatrix, found: _Together) -> bool:
    if found.share < _LOST_SHARE:
        return True
    node = matrix.machine.node(part_number(found.node))
    rates = (matrix.memory_gbs.get(found.node), node.memory_gbs)
    like_memory = any(rate and abs(found.gbs / rate - 1) <= _LIKE_MEMORY for rate in rates)
    return found.share < _SMALL_LOSS_SHARE and like_memory


def _memory_bound(matrix: PathMatrix, found: _Together) -> Finding:
    gpus, node = in_order(s.gpu for s in found.copies), matrix.machine.node(part_number(found.node))
    known = [
        f"host threads copy {rate:.0f} GB/s within {found.node}, read and written together"
        for rate in [matrix.memory_gbs.get(found.node)]
        if rate
    ]
    if node.memory_gbs:
        known.append(f"peak of the memory of {found.node}: {node.memory_gbs:.0f} GB/s")
    return Finding(
        kind="host-memory-bound",
        sentence=f"{names(gpus)} each reach their links alone, but together they get "
        f"{percent_below(found.gbs, found.expected_gbs)} less than their links carry: the memory "
        f"of {found.node} or its way to the PCIe ports is the limit.",
        evidence=(
            f"{found.copies[0].experiment.name}: {found.gbs:.1f} GB/s in sum, "
            f"{found.expected_gbs:.1f} GB/s expected from each GPU alone",
            *(f"{copy.copy.path} {copy.gbs:.1f} GB/s" for copy in found.copies),
            *known,
        ),
        confirm="lanescope bench -t all_to_host_memcpy_ce host_to_all_memcpy_ce; "
        "lanescope check 'host-copy/*'",
        remedy="Fill all memory channels, look at the memory's speed and the NUMA setting in the "
        "BIOS, and spread the GPUs' buffers over the nodes.",
        parts=(found.node, *gpus),
        fault=False,
    )


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
    matrix: PathMatrix, explained: frozenset[str]
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
        tuple(_asymmetric(group) for group in by_loser if group),
        frozenset(o.name for o in found),
    )


def _opposing(matrix: PathMatrix, run: MeasuredSet, explained: frozenset[str]) -> _Opposing | None:
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


def _share(matrix: PathMatrix, copy: MeasuredCopy, bound: float | None) -> _Share | None:
    alone = matrix.of_routes(copy.route)
    own_bound = None if alone is None else link_limits(matrix.machine, alone)[0]
    if alone is None or bound is None or own_bound is None:
        return None
    share = copy.gbs / alone[0].gbs
    return _Share(copy, share, min(1.0, share / min(1.0, bound / own_bound)))


def _asymmetric(found: list[_Opposing]) -> Finding:
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
