"""Copies between GPUs that do not take the way they should."""

from __future__ import annotations

from lanescope.copies import Timing
from lanescope.copies.limit import route
from lanescope.document.finding import Finding
from lanescope.findings.machine.evidence import (
    Matrix,
    MeasuredCopy,
    cut,
    in_order,
    names,
    narrowest_gbs,
)
from lanescope.machine import LinkKind
from lanescope.machine.part_names import is_numa_node
from lanescope.results.verdict import EXPECTED_SHARE

#: Copies that go their proper way reach 80 % and more of the limit; through the root
#: complex and its address translation, or through host memory, half and less.
_DIRECTION_SHARE = 0.60

Pairs = frozenset[tuple[str, str]]


def peer_copies(matrix: Matrix) -> list[MeasuredCopy]:
    """Return the copies between GPUs that ran alone."""
    return [copy for copy in matrix.alone if not copy.over_host]


def over_nvlink(matrix: Matrix, copy: MeasuredCopy) -> bool:
    """Whether NVLink joins the two ends of a copy."""
    path = route(matrix.machine, copy.copy.source.part, copy.copy.destination.part)
    return bool(path) and all(link.kind is LinkKind.NVLINK for link, _ in path or ())


def staged_through_host(matrix: Matrix) -> tuple[tuple[Finding, ...], Pairs]:
    """Return diagnoses of pairs whose copies go through host memory, and those pairs."""
    staged = [copy for copy in peer_copies(matrix) if copy.staged]
    pairs = {copy.ends for copy in staged}
    unused = [
        copy
        for copy in peer_copies(matrix)
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


def iommu_or_acs(matrix: Matrix, explained: frozenset[str]) -> tuple[tuple[Finding, ...], Pairs]:
    """Return a diagnosis of PCIe pairs that do not go straight through their switch.

    Parameters
    ----------
    explained
        GPUs whose rates have a known cause.
    """
    slow = [
        copy
        for copy in peer_copies(matrix)
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


def _below_pcie(matrix: Matrix, copy: MeasuredCopy) -> bool:
    rates = [narrowest_gbs(matrix.machine, gpu) for gpu in copy.ends]
    known = [rate for rate in rates if rate is not None]
    if not known or copy.limit.gbs is None:
        return False
    # A bundle of few NVLinks may honestly carry less than PCIe does.
    return copy.gbs < min(*known, _DIRECTION_SHARE * copy.limit.gbs)


def _below_one_switch(matrix: Matrix, copy: MeasuredCopy) -> bool:
    path = route(matrix.machine, copy.copy.source.part, copy.copy.destination.part)
    return (
        path is not None
        and all(link.kind is LinkKind.PCIE for link, _ in path)
        and not any(is_numa_node(end) for link, _ in path for end in (link.a, link.b))
    )


def _host_copies_fine(matrix: Matrix, gpu: str) -> bool:
    copies, least = matrix.best_host_copies(gpu), EXPECTED_SHARE[LinkKind.PCIE][0]
    return bool(copies) and all(
        copy.limit.gbs is not None and copy.gbs >= least * copy.limit.gbs for copy in copies
    )


def _host_text(matrix: Matrix, slow: list[MeasuredCopy]) -> tuple[str, ...]:
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
