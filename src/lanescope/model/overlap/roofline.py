"""What no method can beat, and what doing one thing after the other takes.

Section III of van Werkhoven et al. (2014) extends the roofline model by the link between host
and GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.errors import InputError
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.parameters import LinkParameters


@dataclass(frozen=True, slots=True)
class Bounds:
    """Three bounds as times of one round.

    Attributes
    ----------
    full_overlap
        Seconds if everything overlaps: no method with copies is faster.
    zero_overlap
        Seconds if nothing does.
    mapped
        Seconds at least of a kernel on mapped memory, to which the GPU's own is no help.
    flops
        Operations of the kernel, for bounds as rates; None: not known.
    """

    full_overlap: float
    zero_overlap: float
    mapped: float
    flops: float | None = None

    def rate(self, seconds: float) -> float | None:
        """Return the FLOP/s that a time stands for; None where no operations are known."""
        return None if self.flops is None or seconds == 0 else self.flops / seconds


def paper_bounds(
    flops: float,
    device_bytes: float,
    transferred_bytes: float,
    peak_flops: float,
    memory_bandwidth: float,
    link_bandwidth: float,
) -> Bounds:
    """Return the bounds as section III has them: one bandwidth for all that crosses the link.

    Parameters
    ----------
    flops, peak_flops
        Operations of the kernel, and FLOP/s of the GPU.
    device_bytes, memory_bandwidth
        Bytes to and from the GPU's memory, and bytes a second of it.
    transferred_bytes, link_bandwidth
        Bytes in both directions together, and bytes a second.
    """
    operational, data = flops / device_bytes, flops / transferred_bytes
    roof = min(peak_flops, memory_bandwidth * operational)
    full = min(peak_flops, memory_bandwidth * operational, link_bandwidth * data)
    zero = flops / (transferred_bytes / link_bandwidth + flops / roof)
    mapped = min(peak_flops, link_bandwidth * operational)
    return Bounds(flops / full, flops / zero, flops / mapped, flops)


def bounds_of(
    workload: Workload,
    parameters: LinkParameters,
    peak_flops: float | None = None,
    memory_bandwidth: float | None = None,
) -> Bounds:
    """Return the bounds of a workload on a link whose directions are busy at the same time.

    The paper's sum of both directions is no bound where they overlap, so here the longer one
    bounds full overlap, and each direction has its own G. The kernel's share is its own time, or
    the roofline's where operations, bytes and both peaks are known.

    Raises
    ------
    InputError
        If a peak is given without what it takes.
    """
    h2d = workload.h2d_bytes * parameters.h2d.per_byte.value
    d2h = workload.d2h_bytes * parameters.d2h.per_byte.value
    compute = kernel = workload.kernel_seconds
    if peak_flops is not None or memory_bandwidth is not None:
        flops, moved = workload.flops, workload.device_bytes
        if not (flops and moved and peak_flops and memory_bandwidth):
            raise InputError(
                "the roofline takes all of --flops, --device-bytes, --peak-flops and "
                "--memory-bandwidth; give those four, or neither of the last two"
            )
        compute = flops / peak_flops
        kernel = max(compute, moved / memory_bandwidth)
    reads, writes = parameters.h2d.per_byte.value, parameters.d2h.per_byte.value
    if parameters.mapped is not None:
        reads = parameters.mapped.read_per_byte.value
        writes = parameters.mapped.write_per_byte.value
    mapped = max(
        compute,
        workload.h2d_bytes * workload.mapped_reads * reads,
        workload.d2h_bytes * workload.mapped_writes * writes,
    )
    return Bounds(max(h2d, kernel, d2h), h2d + kernel + d2h, mapped, workload.flops)
