"""GPUs that are used from a NUMA node that is not the best one."""

from __future__ import annotations

from lanescope.document.finding import Finding
from lanescope.findings.machine.evidence import (
    Matrix,
    MeasuredCopy,
    cut,
    in_order,
    names,
    percent_below,
)
from lanescope.machine.part_names import part_number

#: A far node always costs some latency; only more than this is worth binding a program for.
_FAR_SHARE = 0.90
#: The node that is told to be near must not lose to another by more than noise.
_NEAR_SHARE = 0.95

_Pair = tuple[MeasuredCopy, MeasuredCopy]  # the slower copy and the faster one


def far_numa(matrix: Matrix) -> tuple[Finding, ...]:
    """Return a diagnosis for each pair of nodes where the choice matters to some GPUs."""
    far: dict[tuple[str, str], list[_Pair]] = {}
    wrong: dict[tuple[str | None, str], list[_Pair]] = {}
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


def _wrong(matrix: Matrix, near: str | None, best: str, pairs: list[_Pair]) -> Finding:
    gpus = names(_gpus(pairs))
    if near is None:
        what = f"The machine does not tell which node is near {gpus}, but {best} is the faster one"
    else:
        what = f"The machine says that {near} is near {gpus}, but {best} is faster"
    return _diagnosis(matrix, what, best, (best if near is None else near), pairs)


def _far(matrix: Matrix, near: str, node: str, pairs: list[_Pair]) -> Finding:
    gpus = _gpus(pairs)
    verb = "is" if len(gpus) == 1 else "are"
    what = f"{names(gpus)} {verb} near {near} and slower from and to {node}"
    return _diagnosis(matrix, what, near, node, pairs)


def _diagnosis(matrix: Matrix, what: str, best: str, node: str, pairs: list[_Pair]) -> Finding:
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


def _gpus(pairs: list[_Pair]) -> tuple[str, ...]:
    return in_order(slow.gpu for slow, _ in pairs)
