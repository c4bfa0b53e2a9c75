"""What to do with an array over each path that it crossed: measured, not predicted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lanescope.compression.costs import MARGIN
from lanescope.compression.shapes import TO_GPU, TO_HOST
from lanescope.studies.compress.advice import Link, recommendation
from lanescope.studies.compress.crossing_costs import pays_from
from lanescope.studies.compress.crossings import Crossing
from lanescope.studies.compress.results import ArrayResult


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do over one path.

    Attributes
    ----------
    best
        The fastest codec at the largest size that was measured.
    pays_from
        From how many bytes on that codec pays by the rule, from the measured speeds; None: never,
        or its kernels were not measured.
    """

    best: Crossing
    pays_from: int | None

    @property
    def sentence(self) -> str:
        """For people."""
        best, speedup = self.best, self.best.speedup
        coded, raw = f"{best.gbs.value:.3g}", f"{best.raw_gbs.value:.3g}"
        low, high = (MARGIN * one > 1 for one in (speedup.low, speedup.high))
        sure = "" if low == high else "; the interval of its speeds leaves that open"
        if best.pays:
            return (
                f"{path_text(best.path)}: use {best.choice.name}: measured {coded} GB/s instead "
                f"of {raw}, {speedup.value:.2f} times as fast{sure}"
            )
        little = ", which is too little of a gain" if speedup.value > 1 else ""
        return (
            f"{path_text(best.path)}: leave it raw: measured {coded} GB/s with {best.choice.name} "
            f"and {raw} without{little}{sure}"
        )


def verdicts(result: ArrayResult) -> tuple[Verdict, ...]:
    """Return one for each path that the array crossed, in their order."""
    return tuple(_verdicts(result))


def sentences(result: ArrayResult, link: Link | None, slab_bytes: int) -> tuple[str, ...]:
    """Return what to do with an array, and why: as measured, and as predicted where it was not.

    Predicted is for the link that was named, or for none where nothing crossed one.
    """
    told = [one.sentence for one in verdicts(result)]
    if told and link is None:
        return tuple(told)
    by_cpu = recommendation(result, link, slab_bytes)
    if not result.gpu:
        return (*told, by_cpu)
    if any(one.timings for one in result.codecs):
        told.append(f"by this host's CPUs: {by_cpu}")
    by_gpu = recommendation(result, link, slab_bytes, by_gpu=True)
    return (*told, f"by kernels of such GPUs: {by_gpu}")


def _verdicts(result: ArrayResult) -> Iterator[Verdict]:
    for path in dict.fromkeys(one.path for one in result.crossings):
        those = [one for one in result.crossings if one.path == path]
        size = max(one.bytes for one in those)
        best = max((one for one in those if one.bytes == size), key=lambda one: one.speedup.value)
        yield Verdict(best, break_even_bytes(result, best))


def break_even_bytes(result: ArrayResult, of: Crossing) -> int | None:
    """Return from how many bytes on a crossing's codec pays over its path, by the rule.

    With the slabs that channels over such a path have by themselves.

    None: never; or its kernels were not measured.
    """
    kernels = [one for one in result.gpu if one.choice == of.choice]
    if not kernels:
        return None
    alike = [one for one in result.crossings if (one.path, one.choice) == (of.path, of.choice)]
    usual = TO_HOST if "host" in of.path else TO_GPU
    return pays_from(alike, kernels[0], usual.fill_bytes)


def path_text(path: str) -> str:
    """Return a path for people.

    >>> path_text("g0>host"), path_text("g0>g1"), path_text("p2p")
    ('GPU 0 to host', 'GPU 0 to GPU 1', 'p2p')
    """
    return re.sub(r"\bg(\d+)", r"GPU \1", path).replace(">", " to ")
