"""What no method can beat, and what doing one thing after the other takes.

Section III of van Werkhoven et al. (2014) extends the roofline model by the link between host
and GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lanescope.errors import InputError, argument
from lanescope.prediction.equations import PICKS, Pick
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.workload import Workload
from lanescope.units.bandwidth import bytes_a_second
from lanescope.units.estimate import Estimate
from lanescope.units.words import time_text

#: A kernel is too fast that takes less than the roofline by a larger share.
_ROUNDED = 0.01


@dataclass(frozen=True, slots=True)
class Bounds:
    """Three bounds as seconds of one round, with the interval of the link's parameters.

    Attributes
    ----------
    full_overlap
        If everything overlaps: no method with copies is faster.
    zero_overlap
        If nothing does.
    mapped
        At least, of a kernel on mapped memory, to which the GPU's own is no help.
    flops
        Operations of the kernel, for bounds as rates; None: not known.
    """

    full_overlap: Estimate
    zero_overlap: Estimate
    mapped: Estimate
    flops: float | None = None

    def rate(self, seconds: Estimate) -> float | None:
        """Return the FLOP/s that a time stands for; None where no operations are known."""
        return None if self.flops is None or not seconds.value else self.flops / seconds.value


@dataclass(frozen=True, slots=True)
class Peaks:
    """What a GPU can do at most: FLOP/s, and bytes a second of its memory."""

    flops: float
    memory_bandwidth: float


def peaks_of(flops: float | None, memory_gbs: float | None) -> Peaks | None:
    """Return the peaks of a GPU, FLOP/s and GB/s; None without.

    Raises
    ------
    InputError
        If one alone is given, or one is not above zero.
    """
    for name, peak in ((argument.peak_flops, flops), (argument.memory_gbs, memory_gbs)):
        if peak is not None and not 0 < peak < float("inf"):
            raise InputError(f"{name} {peak:g} is not above zero; give what the GPU can do")
    if flops is None and memory_gbs is None:
        return None
    if flops is None or memory_gbs is None:
        raise InputError(
            f"{argument.peak_flops} and {argument.memory_gbs} belong together; give both or none"
        )
    return Peaks(flops, bytes_a_second(memory_gbs))


def paper_bounds(
    flops: float,
    device_bytes: float,
    transferred_bytes: float,
    peaks: Peaks,
    link_bandwidth: float,
) -> tuple[float, float, float]:
    """Return the bounds in FLOP/s as section III has them: full overlap, zero overlap, mapped.

    Parameters
    ----------
    flops
        Operations of the kernel.
    device_bytes
        To and from the GPU's memory.
    transferred_bytes, link_bandwidth
        Bytes in both directions together, and bytes a second: the paper has one for both.
    """
    operational, data = flops / device_bytes, flops / transferred_bytes
    roof = min(peaks.flops, peaks.memory_bandwidth * operational)
    full = min(roof, link_bandwidth * data)
    zero = flops / (transferred_bytes / link_bandwidth + flops / roof)
    mapped = min(peaks.flops, link_bandwidth * operational)
    return full, zero, mapped


def bounds_as_printed(workload: Workload, parameters: LinkParameters, peaks: Peaks) -> Bounds:
    """Return the paper's bounds of a workload, by the mean bandwidth of all of its bytes.

    Raises
    ------
    InputError
        If the workload's operations or bytes are not known.
    """
    flops, moved = _roofline(workload)
    total = workload.h2d_bytes + workload.d2h_bytes

    def at(pick: Pick) -> tuple[float, ...]:
        h2d, d2h = _link_seconds(workload, parameters, pick)
        rates = paper_bounds(flops, moved, total, peaks, total / (h2d + d2h))
        return tuple(flops / rate for rate in rates)

    return _bounds(at, flops)


def bounds_of(workload: Workload, parameters: LinkParameters, peaks: Peaks | None = None) -> Bounds:
    """Return the bounds of a workload on a link whose directions are busy at the same time.

    The paper's sum of both directions is no bound where they overlap, so here the longer one
    bounds full overlap, and each direction has its own G. The kernel's share is its own time, or
    the roofline's where the GPU's peaks are given.

    Raises
    ------
    InputError
        If there are peaks, and the workload's operations or bytes are not known.
    """
    compute = kernel = workload.kernel_seconds
    if peaks is not None:
        flops, moved = _roofline(workload)
        compute = flops / peaks.flops
        kernel = max(compute, moved / peaks.memory_bandwidth)

    def at(pick: Pick) -> tuple[float, ...]:
        h2d, d2h = _link_seconds(workload, parameters, pick)
        reads, writes = h2d, d2h
        if parameters.mapped is not None:
            reads = workload.h2d_bytes * pick(parameters.mapped.read_per_byte)
            writes = workload.d2h_bytes * pick(parameters.mapped.write_per_byte)
        mapped = max(compute, reads * workload.mapped_reads, writes * workload.mapped_writes)
        return max(h2d, kernel, d2h), h2d + kernel + d2h, mapped

    return _bounds(at, workload.flops)


def too_fast(workload: Workload, peaks: Peaks | None) -> str | None:
    """Return a sentence where the kernel's time is less than the roofline allows; else None."""
    if peaks is None:
        return None
    flops, moved = _roofline(workload)
    computing, memory = flops / peaks.flops, moved / peaks.memory_bandwidth
    least = max(computing, memory)
    if workload.kernel_seconds >= least * (1 - _ROUNDED):
        return None
    what = "its operations take" if computing >= memory else "its bytes of the GPU's memory take"
    return (
        f"The kernel's {time_text(workload.kernel_seconds)} is less than the {time_text(least)} "
        f"that {what} at the GPU's peak: one of these numbers is wrong, and so are the times here."
    )


def _link_seconds(
    workload: Workload, parameters: LinkParameters, pick: Pick
) -> tuple[float, float]:
    return (
        workload.h2d_bytes * pick(parameters.h2d.per_byte),
        workload.d2h_bytes * pick(parameters.d2h.per_byte),
    )


def _roofline(workload: Workload) -> tuple[float, float]:
    if not workload.flops or not workload.device_bytes:
        raise InputError(
            f"the roofline takes all of {argument.flops}, {argument.device_bytes}, "
            f"{argument.peak_flops} and {argument.memory_gbs}; give those four, or "
            "neither of the last two"
        )
    return workload.flops, workload.device_bytes


def _bounds(at: Callable[[Pick], tuple[float, ...]], flops: float | None) -> Bounds:
    ends = zip(*(at(pick) for pick in PICKS), strict=True)
    full, zero, mapped = (Estimate(value, low, high) for value, low, high in ends)
    return Bounds(full, zero, mapped, flops)
