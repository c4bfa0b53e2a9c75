"""Host memory that cannot feed all GPUs at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lanescope.copies.limit import limits
from lanescope.document.finding import Finding
from lanescope.findings.machine.evidence import (
    Matrix,
    MeasuredCopy,
    Run,
    in_order,
    names,
    percent_below,
)
from lanescope.machine import LinkKind, Machine
from lanescope.machine.part_names import part_number
from lanescope.results.verdict import EXPECTED_SHARE

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
    copies: Run
    gbs: float
    expected_gbs: float

    @property
    def share(self) -> float:
        return self.gbs / self.expected_gbs


def host_memory_bound(
    matrix: Matrix, explained: frozenset[str], known: frozenset[str]
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
    return tuple(_diagnosis(matrix, found) for _, found in sorted(worst.items()))


def link_limits(machine: Machine, run: Run) -> tuple[float | None, ...]:
    """Return what the links alone, without the memory of nodes, let each copy reach; in GB/s."""
    endless = replace(machine, nodes=tuple(replace(n, memory_gbs=None) for n in machine.nodes))
    return tuple(limit.gbs for limit in limits(endless, run[0].experiment))


def _by_node(matrix: Matrix, run: Run, explained: frozenset[str]) -> Iterator[_Together]:
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


def _expected(matrix: Matrix, run: Run, copy: MeasuredCopy, bound: float | None) -> float | None:
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


def _bound(matrix: Matrix, found: _Together) -> bool:
    if found.share < _LOST_SHARE:
        return True
    node = matrix.machine.node(part_number(found.node))
    rates = (matrix.memory_gbs.get(found.node), node.memory_gbs)
    like_memory = any(rate and abs(found.gbs / rate - 1) <= _LIKE_MEMORY for rate in rates)
    return found.share < _SMALL_LOSS_SHARE and like_memory


def _diagnosis(matrix: Matrix, found: _Together) -> Finding:
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
