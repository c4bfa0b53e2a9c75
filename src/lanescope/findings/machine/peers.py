"""Copies between GPUs: those that do not take the way they should, and the slow of a kind."""

from __future__ import annotations

from collections.abc import Hashable

from lanescope.copies import Timing
from lanescope.copies.limit import route
from lanescope.document.contents import Finding
from lanescope.findings.machine.evidence import (
    MeasuredCopy,
    PathMatrix,
    cut,
    in_order,
    names,
    narrowest_gbs,
    percent_below,
)
from lanescope.findings.machine.links import slower_than_others
from lanescope.machine import Link, LinkKind, Machine, NvLink
from lanescope.machine.part_names import is_numa_node
from lanescope.results.verdict import EXPECTED_SHARE

#: Copies that go their proper way reach 80 % and more of the limit; through the root
#: complex and its address translation, or through host memory, half and less.
_DIRECTION_SHARE = 0.60

Pairs = frozenset[tuple[str, str]]


def _peer_copies(matrix: PathMatrix) -> list[MeasuredCopy]:
    """Return the copies between GPUs that ran alone."""
    return [copy for copy in matrix.alone if not copy.over_host]


def over_nvlink(matrix: PathMatrix, copy: MeasuredCopy) -> bool:
    """Whether NVLink joins the two ends of a copy."""
    path = route(matrix.machine, copy.copy.source.part, copy.copy.destination.part)
    return bool(path) and all(link.kind is LinkKind.NVLINK for link, _ in path or ())


def staged_through_host(matrix: PathMatrix) -> tuple[tuple[Finding, ...], Pairs]:
    """Return diagnoses of pairs whose copies go through host memory, and those pairs."""
    staged = [copy for copy in _peer_copies(matrix) if copy.staged]
    pairs = {copy.ends for copy in staged}
    unused = [
        copy
        for copy in _peer_copies(matrix)
        if copy.ends not in pairs
        and copy.experiment.timing is not Timing.PROCESSES  # memory that is shared is never staged
        and over_nvlink(matrix, copy)
        and _below_pcie(matrix, copy)
    ]
    found = []
    if staged:
        why = "go through host memory, as these GPUs have no access to each other"
        found.append(_staged(staged, why, fault=False))
    if unused:
        why = "are slower than PCIe would carry them, although NVLink joins these GPUs"
        why += ": they probably go through host memory"
        found.append(_staged(unused, why, fault=True))
    return tuple(found), frozenset(pairs | {copy.ends for copy in unused})


def iommu_or_acs(
    matrix: PathMatrix, explained: frozenset[str]
) -> tuple[tuple[Finding, ...], Pairs]:
    """Return a diagnosis of PCIe pairs that do not go straight through their switch.

    Parameters
    ----------
    explained
        GPUs whose rates have a known cause.
    """
    slow = [
        copy
        for copy in _peer_copies(matrix)
        if not copy.staged
        and not explained & set(copy.ends)
        and _below_one_switch(matrix, copy)
        and copy.limit.gbs is not None
        and copy.gbs < _DIRECTION_SHARE * copy.limit.gbs
        and all(_host_copies_fine(matrix, gpu) for gpu in copy.ends)
    ]
    if not slow:
        return (), frozenset()
    pairs = frozenset(copy.ends for copy in slow)
    diagnosis = Finding(
        kind="iommu-or-acs",
        sentence=f"Copies {_pairs_text(slow)} should stay within their PCIe switch, but "
        "are slow while the same GPUs copy from and to the host at full speed: the IOMMU or "
        "ACS (access control) probably sends them up through the root port.",
        evidence=(*cut([copy.text for copy in slow]), *_host_text(matrix, slow)),
        confirm="sudo lspci -vvv | grep -i acsctl; sudo dmesg | grep -i -e iommu -e dmar",
        remedy="Where no virtual machine needs the isolation, turn ACS redirection off for the "
        "switch's ports (setpci, or the BIOS) and the IOMMU off or to passthrough (iommu=pt).",
        parts=in_order(gpu for pair in pairs for gpu in pair),
        fault=True,
    )
    return (diagnosis,), pairs


def _below_pcie(matrix: PathMatrix, copy: MeasuredCopy) -> bool:
    rates = [narrowest_gbs(matrix.machine, gpu) for gpu in copy.ends]
    known = [rate for rate in rates if rate is not None]
    if not known or copy.limit.gbs is None:
        return False
    # A bundle of few NVLinks may honestly carry less than PCIe does.
    return copy.gbs < min(*known, _DIRECTION_SHARE * copy.limit.gbs)


def _below_one_switch(matrix: PathMatrix, copy: MeasuredCopy) -> bool:
    path = route(matrix.machine, copy.copy.source.part, copy.copy.destination.part)
    return (
        path is not None
        and all(link.kind is LinkKind.PCIE for link, _ in path)
        and not any(is_numa_node(end) for link, _ in path for end in (link.a, link.b))
    )


def _host_copies_fine(matrix: PathMatrix, gpu: str) -> bool:
    copies, least = matrix.best_host_copies(gpu), EXPECTED_SHARE[LinkKind.PCIE][0]
    return bool(copies) and all(
        copy.limit.gbs is not None and copy.gbs >= least * copy.limit.gbs for copy in copies
    )


def _host_text(matrix: PathMatrix, slow: list[MeasuredCopy]) -> tuple[str, ...]:
    gpu = slow[0].ends[0]
    return tuple(f"at full speed: {copy.text}" for copy in matrix.best_host_copies(gpu))


def _staged(copies: list[MeasuredCopy], why: str, *, fault: bool) -> Finding:
    return Finding(
        kind="staged-through-host",
        sentence=f"Copies {_pairs_text(copies)} {why}.",
        evidence=cut([copy.text for copy in copies]),
        confirm="nvidia-smi topo -p2p r",
        remedy="Ask for peer access in the program (cudaDeviceEnablePeerAccess). Where the GPUs "
        "do not offer it, look at the fabric manager (NVSwitch machines need it), at the IOMMU, "
        "at the virtual machine's setting for peer access, and whether this model has it at all.",
        parts=in_order(gpu for copy in copies for gpu in copy.ends),
        fault=fault,
    )


def _pairs_text(copies: list[MeasuredCopy]) -> str:
    pairs = sorted({copy.ends for copy in copies})
    gpus = in_order(gpu for pair in pairs for gpu in pair)
    if len(pairs) == 1:
        return f"between {names(gpus)}"
    if len(pairs) == len(gpus) * (len(gpus) - 1) // 2:
        return f"between any two of {names(gpus)}"
    return "of the pairs " + names(f"{a} ⇄ {b}" for a, b in pairs)


_Slow = list[tuple[MeasuredCopy, float]]


def slow_pairs(matrix: PathMatrix, explained: frozenset[str], known: Pairs) -> tuple[Finding, ...]:
    """Return a diagnosis for each slow pair, or for the one GPU that all of them share.

    Parameters
    ----------
    explained
        GPUs whose PCIe rates have a known cause.
    known
        Pairs whose rates have a known cause.
    """
    groups: dict[Hashable, list[MeasuredCopy]] = {}
    for copy in _peer_copies(matrix):
        by_fabric = over_nvlink(matrix, copy)
        if copy.ends not in known and (by_fabric or not explained & set(copy.ends)):
            groups.setdefault((copy.route[2], *_route(matrix.machine, copy)), []).append(copy)
    slow = [pair for likes in groups.values() for pair in slower_than_others(likes)]
    short = _short_bundles(matrix.machine)
    found = [_with_short_bundle(matrix, gpu, bundle, slow) for gpu, bundle in short.items()]
    left = [(copy, usual) for copy, usual in slow if not short.keys() & set(copy.ends)]
    pairs = sorted({copy.ends for copy, _ in left})
    common = set.intersection(*(set(pair) for pair in pairs)) if pairs else set()
    if len(pairs) > 1 and common:
        return (*found, _of_gpu(matrix, common.pop(), left))
    return (*found, *(_of_pair(p, [s for s in left if s[0].ends == p]) for p in pairs))


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


def _with_short_bundle(
    matrix: PathMatrix, gpu: str, bundle: tuple[NvLink, int], slow: _Slow
) -> Finding:
    nvlink, most = bundle
    rates = [(s, usual) for s, usual in slow if gpu in s.ends]
    lines = _lines(rates) or [s.text for s in _peer_copies(matrix) if gpu in s.ends]
    return _slow_pair(
        f"Only {nvlink.count} NVLinks of {gpu} are up, {most} on other GPUs of its model.",
        [f"NVLinks of {gpu}: {nvlink.count} of {nvlink.max_count} are up", *lines],
        (gpu,),
    )


def _of_gpu(matrix: PathMatrix, gpu: str, slow: _Slow) -> Finding:
    worst, usual = _worst(slow)
    fault = "NVLinks are" if over_nvlink(matrix, worst) else "PCIe link is"
    return _slow_pair(
        f"All slow pairs share {gpu}: its copies with other GPUs are up to "
        f"{percent_below(worst.gbs, usual)} slower than those of other pairs, so its {fault} at "
        "fault and not the way between.",
        _lines(slow),
        (gpu,),
    )


def _of_pair(pair: tuple[str, str], slow: _Slow) -> Finding:
    worst, usual = _worst(slow)
    return _slow_pair(
        f"Copies between {names(pair)} are up to {percent_below(worst.gbs, usual)} slower than "
        "those between other pairs that are joined in the same way.",
        _lines(slow),
        pair,
    )


def _worst(slow: _Slow) -> tuple[MeasuredCopy, float]:
    return min(slow, key=lambda pair: pair[0].gbs / pair[1])


def _lines(slow: _Slow) -> list[str]:
    return [f"{copy.text}; the other pairs' median is {usual:.1f} GB/s" for copy, usual in slow]


def _slow_pair(sentence: str, evidence: list[str], parts: tuple[str, ...]) -> Finding:
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
