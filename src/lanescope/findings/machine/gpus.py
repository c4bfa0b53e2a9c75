"""GPUs whose copies from and to the host are slower than those of their likes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median_high

from lanescope.document.finding import Finding
from lanescope.findings.machine.evidence import (
    Matrix,
    MeasuredCopy,
    cut,
    in_order,
    lspci_of,
    names,
    narrowest_gbs,
    percent_below,
    shared_by_only,
)

#: Likes differ by 1 to 2 % on healthy machines; 5 % is beyond noise and worth a look.
PEER_SHARE = 0.95


def slow_gpus(matrix: Matrix, explained: frozenset[str]) -> tuple[Finding, ...]:
    """Return a diagnosis for each GPU that is slower than GPUs with the same kind of link.

    Parameters
    ----------
    explained
        GPUs whose rates have a known cause; they are compared with nobody.
    """
    slow: dict[str, list[tuple[MeasuredCopy, float]]] = {}
    compared: set[str] = set()
    for down in (True, False):
        for likes in _likes(matrix, down, explained):
            compared.update(copy.gpu for copy in likes)
            for copy, usual in slower_than_others(likes):
                slow.setdefault(copy.gpu, []).append((copy, usual))
    # All GPUs of one switch or node: it is that part, not each of them.
    shared = shared_by_only(matrix.machine, slow, compared - slow.keys())
    if shared is not None:
        return (_diagnosis(matrix, slow, shared),)
    return tuple(_diagnosis(matrix, {gpu: slow[gpu]}, None) for gpu in in_order(slow))


def slower_than_others(likes: list[MeasuredCopy]) -> Iterator[tuple[MeasuredCopy, float]]:
    """Yield copies clearly slower than the others, with the others' median in GB/s.

    The other direction of the same pair is no other. Of an even number the higher
    middle one counts: of three GPUs one that is slow must not hide another.
    """
    for copy in likes:
        others = [other.gbs for other in likes if other.ends != copy.ends]
        if others and copy.gbs < PEER_SHARE * (usual := median_high(others)):
            yield copy, usual


def _likes(matrix: Matrix, down: bool, explained: frozenset[str]) -> list[list[MeasuredCopy]]:
    groups: dict[float, list[MeasuredCopy]] = {}
    for gpu in matrix.machine.gpus:
        copy, narrowest = matrix.best_host_copy(gpu.id, down), narrowest_gbs(matrix.machine, gpu.id)
        if gpu.id not in explained and copy is not None and narrowest is not None:
            groups.setdefault(narrowest, []).append(copy)
    return list(groups.values())


def _diagnosis(
    matrix: Matrix, slow: dict[str, list[tuple[MeasuredCopy, float]]], shared: str | None
) -> Finding:
    gpus = in_order(slow)
    worst, usual = min(
        (pair for pairs in slow.values() for pair in pairs), key=lambda pair: pair[0].gbs / pair[1]
    )
    only = f" They are all the measured GPUs below {shared}." if shared else ""
    return Finding(
        kind="slow-gpu",
        sentence=f"Copies between the host and {names(gpus)} are up to "
        f"{percent_below(worst.gbs, usual)} slower than those of the other GPUs with the same "
        f"kind of link.{only}",
        evidence=cut(
            [
                f"{copy.text}; the others' median is {median:.1f} GB/s"
                for gpu in gpus
                for copy, median in slow[gpu]
            ]
        ),
        confirm=f"sudo lspci -vv {lspci_of(matrix.machine, gpus[0])} | "
        "grep -E 'LnkSta|MaxPayload|CESta'; nvidia-smi dmon -s t -c 5",
        remedy="Look for other traffic on the same switch or root port, for packets sent again "
        "(CESta, a bad signal: reseat the card), and for a smaller MaxPayload than on the other "
        "GPUs.",
        parts=(shared, *gpus) if shared else gpus,
        fault=True,
    )
