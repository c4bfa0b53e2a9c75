"""PCIe links that are trained down, and GPUs whose link is slower than those of their likes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median_high

from lanescope.document.contents import Finding
from lanescope.findings.machine.evidence import (
    MeasuredCopy,
    PathMatrix,
    above,
    below,
    cut,
    in_order,
    lspci_of,
    names,
    narrowest_gbs,
    pcie_link_of,
    percent_below,
    shared_by_only,
)
from lanescope.machine import Link, PcieLink
from lanescope.machine.pcie import is_trained_down, payload_gbs

#: Share of a slower link's payload limit that copies over it reach: 95 % was measured on
#: PCIe 5.0, and hosts with small packets or slow reads come down to 85 %. More than the
#: limit cannot be; the tolerance is that of the verdicts.
_LIKE_LINK = (0.85, 1.02)
#: A step down in speed or width halves a link. What is nearer to the limit of the whole
#: path, of which another link may be the narrowest, is no step down.
_STEP_SHARE = 0.75


def trained_down(matrix: PathMatrix) -> tuple[Finding, ...]:
    """Return a diagnosis for each PCIe link that is trained down, in speed or width."""
    reduced = {
        link.b: states for link in matrix.machine.links if (states := tuple(_states(matrix, link)))
    }
    explained = below(matrix.machine, reduced)
    inferred = {
        gpu.id: labels
        for gpu in matrix.machine.gpus
        if gpu.id not in explained and (labels := _looks_like(matrix, gpu.id))
    }
    return (
        *(_from_state(matrix, part, states) for part, states in reduced.items()),
        *_from_rates(matrix, inferred),
    )


def _states(matrix: PathMatrix, link: Link) -> Iterator[str]:
    """What the machine says itself of a link that is below its best, and that copies crossed."""
    copies = _copies_below(matrix, link.b)
    if link.pcie is None or not copies:
        return
    rates = [max((s.gbs for s in copies if s.down is down), default=None) for down in (True, False)]
    best = link.pcie.at_best()
    best = replace(best, max_generation=best.generation, max_width=best.width)
    observed = {(e.generation, e.width) for s in copies for e in s.links if e.part == link.b}
    for generation, width in sorted(observed):
        state = replace(best, generation=generation, width=width)
        if is_trained_down(state, rates):
            yield f"runs at {state.label} under load, {best.label} is possible"
    # Idle links drop their speed to save power, but they keep their width.
    narrow = replace(best, width=link.pcie.width)
    if not observed and is_trained_down(narrow, rates):
        yield f"is x{narrow.width} wide, x{best.width} is possible"


def _copies_below(matrix: PathMatrix, part: str) -> list[MeasuredCopy]:
    gpus = below(matrix.machine, (part,))
    return [s for s in matrix.alone if s.over_host and s.gpu in gpus]


def _looks_like(matrix: PathMatrix, gpu: str) -> tuple[str, ...]:
    """Return the slower links that a GPU's copies from and to the host would fit."""
    link, copies = pcie_link_of(matrix.machine, gpu), matrix.best_host_copies(gpu)
    if link is None or link.pcie is None or not copies:
        return ()
    best = link.pcie.at_best()
    return tuple(
        slower.label
        for slower in _slower(best)
        if all(_fits(copy, payload_gbs(slower)) for copy in copies)
    )


def _slower(best: PcieLink) -> Iterator[PcieLink]:
    for generation in (best.generation - 1, best.generation - 2):
        if generation >= 1:
            yield replace(best, generation=generation)
    for width in (best.width // 2, best.width // 4):
        if width >= 1:
            yield replace(best, width=width)


def _fits(copy: MeasuredCopy, limits_gbs: tuple[float, float]) -> bool:
    slower, own = limits_gbs[0 if copy.down else 1], copy.limit.gbs
    like = _LIKE_LINK[0] <= copy.gbs / slower <= _LIKE_LINK[1]
    return like and own is not None and slower < _STEP_SHARE * own


def _from_state(matrix: PathMatrix, part: str, states: tuple[str, ...]) -> Finding:
    above_it = above(matrix.machine, part)[0]
    return _trained_down(
        matrix,
        f"The link of {part} to {above_it} {states[0]}.",
        (*(f"the link of {part} {state}" for state in states), *_rates(matrix, (part,))),
        (part,),
    )


def _from_rates(matrix: PathMatrix, inferred: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
    machine, left = matrix.machine, dict(inferred)
    for switch in dict.fromkeys(above(machine, gpu)[0] for gpu in inferred):
        gpus = in_order(g for g in below(machine, (switch,)) if matrix.best_host_copies(g))
        shared = len(gpus) > 1 or _observed_at_best(matrix, gpus[0])
        if switch.startswith("s") and shared and all(g in left for g in gpus):
            like = [left.pop(gpu) for gpu in gpus]
            yield _guess(matrix, switch, gpus, like[0])
    for gpu, labels in left.items():
        if not _observed_at_best(matrix, gpu):  # else something other than its link is slow
            yield _guess(matrix, gpu, (gpu,), labels)


def _observed_at_best(matrix: PathMatrix, gpu: str) -> bool:
    link = pcie_link_of(matrix.machine, gpu)
    if link is None or link.pcie is None:
        return False
    best = link.pcie.at_best()
    states = [e for s in matrix.best_host_copies(gpu) for e in s.links if e.part == gpu]
    return any((e.generation, e.width) == (best.generation, best.width) for e in states)


def _guess(
    matrix: PathMatrix, part: str, gpus: tuple[str, ...], labels: tuple[str, ...]
) -> Finding:
    link = pcie_link_of(matrix.machine, part)
    best = "more" if link is None or link.pcie is None else link.best_label
    return _trained_down(
        matrix,
        f"Copies between the host and {names(gpus)} are as fast as {names(labels, 'or')} would "
        f"be, but the link of {part} to {above(matrix.machine, part)[0]} could run at {best}: "
        "it is probably trained down.",
        _rates(matrix, gpus),
        tuple(dict.fromkeys((part, *gpus))),
    )


def _rates(matrix: PathMatrix, parts: tuple[str, ...]) -> tuple[str, ...]:
    gpus = in_order(below(matrix.machine, parts))
    return cut([s.text for gpu in gpus for s in matrix.best_host_copies(gpu)])


def _trained_down(
    matrix: PathMatrix, sentence: str, evidence: tuple[str, ...], parts: tuple[str, ...]
) -> Finding:
    return Finding(
        kind="trained-down",
        sentence=sentence,
        evidence=evidence,
        confirm=f"sudo lspci -vv {lspci_of(matrix.machine, parts[0])} | grep -E 'LnkCap|LnkSta'; "
        "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv",
        remedy="Read the link state while a copy runs, as idle links slow down to save power. "
        "Then reseat the card or riser, try another slot, and look at the slot's speed and width "
        "in the BIOS.",
        parts=parts,
        fault=True,
    )


#: Likes differ by 1 to 2 % on healthy machines; 5 % is beyond noise and worth a look.
_PEER_SHARE = 0.95
#: A median below that is no noise, however wide its interval: a few fast copies hide no fault.
_FAR_SHARE = 0.5


def slow_gpus(matrix: PathMatrix, explained: frozenset[str]) -> tuple[Finding, ...]:
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
        return (_slow(matrix, slow, shared),)
    return tuple(_slow(matrix, {gpu: slow[gpu]}, None) for gpu in in_order(slow))


def slower_than_others(likes: list[MeasuredCopy]) -> Iterator[tuple[MeasuredCopy, float]]:
    """Yield copies clearly slower than the others, with the others' median in GB/s.

    They are that at the fast end of their intervals, too, or by half: one that is hardly known is
    not blamed.

    The other direction of the same pair is no other. Of an even number the higher
    middle one counts: of three GPUs one that is slow must not hide another.
    """
    for copy in likes:
        others = [other.gbs for other in likes if other.ends != copy.ends]
        if not others:
            continue
        usual = median_high(others)
        if copy.most_gbs < _PEER_SHARE * usual or copy.gbs < _FAR_SHARE * usual:
            yield copy, usual


def _likes(matrix: PathMatrix, down: bool, explained: frozenset[str]) -> list[list[MeasuredCopy]]:
    groups: dict[float, list[MeasuredCopy]] = {}
    for gpu in matrix.machine.gpus:
        copy, narrowest = matrix.best_host_copy(gpu.id, down), narrowest_gbs(matrix.machine, gpu.id)
        if gpu.id not in explained and copy is not None and narrowest is not None:
            groups.setdefault(narrowest, []).append(copy)
    return list(groups.values())


def _slow(
    matrix: PathMatrix, slow: dict[str, list[tuple[MeasuredCopy, float]]], shared: str | None
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
