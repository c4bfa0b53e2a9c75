"""Pairs of GPUs that are slower than other pairs joined in the same way."""

from __future__ import annotations

from collections.abc import Hashable

from lanescope.copies.limit import route
from lanescope.document.finding import Finding
from lanescope.findings.machine.evidence import (
    Matrix,
    MeasuredCopy,
    cut,
    in_order,
    names,
    percent_below,
)
from lanescope.findings.machine.gpus import slower_than_others
from lanescope.findings.machine.peers import Pairs, over_nvlink, peer_copies
from lanescope.machine import Link, Machine, NvLink

_Slow = list[tuple[MeasuredCopy, float]]


def slow_pairs(matrix: Matrix, explained: frozenset[str], known: Pairs) -> tuple[Finding, ...]:
    """Return a diagnosis for each slow pair, or for the one GPU that all of them share.

    Parameters
    ----------
    explained
        GPUs whose PCIe rates have a known cause.
    known
        Pairs whose rates have a known cause.
    """
    groups: dict[Hashable, list[MeasuredCopy]] = {}
    for copy in peer_copies(matrix):
        by_fabric = over_nvlink(matrix, copy)
        if copy.ends not in known and (by_fabric or not explained & set(copy.ends)):
            groups.setdefault((copy.route[2], *_route(matrix.machine, copy)), []).append(copy)
    slow = [pair for likes in groups.values() for pair in slower_than_others(likes)]
    short = _short_bundles(matrix.machine)
    found = [_short(matrix, gpu, bundle, slow) for gpu, bundle in short.items()]
    left = [(copy, usual) for copy, usual in slow if not short.keys() & set(copy.ends)]
    pairs = sorted({copy.ends for copy, _ in left})
    common = set.intersection(*(set(pair) for pair in pairs)) if pairs else set()
    if len(pairs) > 1 and common:
        return (*found, _of_gpu(matrix, common.pop(), left))
    return (*found, *(_of_pair(matrix, p, [s for s in left if s[0].ends == p]) for p in pairs))


def _route(machine: Machine, copy: MeasuredCopy) -> list[Hashable]:
    """What pairs must have in common to be compared."""
    path = route(machine, copy.copy.source.part, copy.copy.destination.part) or ()
    return sorted((_kind(link) for link, _ in path), key=str)


def _kind(link: Link) -> Hashable:
    if link.nvlink is not None:
        # Bundles between two GPUs differ in size by design; those to a switch do not.
        count = link.nvlink.max_count or link.nvlink.count
        return link.kind, link.nvlink.version, link.nvlink.link_gbs, count
    # Links that meet in a switch are shorter than those that meet in a node.
    ends = (link.a[0], link.b[0])
    if link.pcie is None:
        return link.kind, ends
    best = link.pcie.at_best()
    return link.kind, ends, best.generation, best.width


def _short_bundles(machine: Machine) -> dict[str, tuple[NvLink, int]]:
    """Return GPUs with NVLinks down that GPUs of the same model have up, and how many those are.

    What all GPUs lack belongs to the machine: not every board wires every NVLink.
    """
    model = {gpu.id: gpu.name for gpu in machine.gpus}
    bundles = [(ln.a, ln.nvlink) for ln in machine.links if ln.nvlink and ln.nvlink.max_count]
    short = {}
    for gpu, bundle in bundles:
        most = max(b.count for g, b in bundles if model.get(g) == model.get(gpu))
        if bundle.count < most:
            short[gpu] = (bundle, most)
    return short


def _short(matrix: Matrix, gpu: str, bundle: tuple[NvLink, int], slow: _Slow) -> Finding:
    nvlink, most = bundle
    rates = [(s, usual) for s, usual in slow if gpu in s.ends]
    lines = _lines(rates) or [s.text for s in peer_copies(matrix) if gpu in s.ends]
    return _diagnosis(
        f"Only {nvlink.count} NVLinks of {gpu} are up, {most} on other GPUs of its model.",
        [f"NVLinks of {gpu}: {nvlink.count} of {nvlink.max_count} are up", *lines],
        (gpu,),
    )


def _of_gpu(matrix: Matrix, gpu: str, slow: _Slow) -> Finding:
    worst, usual = _worst(slow)
    fault = "NVLinks are" if over_nvlink(matrix, worst) else "PCIe link is"
    return _diagnosis(
        f"All slow pairs share {gpu}: its copies with other GPUs are up to "
        f"{percent_below(worst.gbs, usual)} slower than those of other pairs, so its {fault} at "
        "fault and not the way between.",
        _lines(slow),
        (gpu,),
    )


def _of_pair(matrix: Matrix, pair: tuple[str, str], slow: _Slow) -> Finding:
    worst, usual = _worst(slow)
    return _diagnosis(
        f"Copies between {names(pair)} are up to {percent_below(worst.gbs, usual)} slower than "
        "those between other pairs that are joined in the same way.",
        _lines(slow),
        pair,
    )


def _worst(slow: _Slow) -> tuple[MeasuredCopy, float]:
    return min(slow, key=lambda pair: pair[0].gbs / pair[1])


def _lines(slow: _Slow) -> list[str]:
    return [f"{copy.text}; the other pairs' median is {usual:.1f} GB/s" for copy, usual in slow]


def _diagnosis(sentence: str, evidence: list[str], parts: tuple[str, ...]) -> Finding:
    parts = in_order(parts)
    status = "; ".join(f"nvidia-smi nvlink -s -i {gpu[1:]}" for gpu in parts)
    return Finding(
        kind="slow-pair",
        sentence=sentence,
        evidence=cut(evidence),
        confirm=f"{status}; nvidia-smi nvlink -e; nvidia-smi topo -m",
        remedy="Look for NVLinks that are down or count errors, restart the fabric manager where "
        "there is one, and reseat the GPU or its bridge. Over PCIe, look for other traffic on the "
        "way.",
        parts=parts,
        fault=True,
    )
