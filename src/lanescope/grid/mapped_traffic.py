"""How many bytes a kernel that works on mapped memory moves over the link, as its counters say.

A kernel that reads an element again moves it again where no cache holds it. How often it does is
its own affair and not the link's, as its computing time is; PM sampling counts it.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lanescope.backend.task_graph import UNCOUNTED_RUNS
from lanescope.errors import NotMeasuredError
from lanescope.grid.case import GridCase
from lanescope.grid.reference import Kernel
from lanescope.grid.running import GridMemory, run_case
from lanescope.machine import Machine
from lanescope.model.overlap.methods import Method
from lanescope.watch.counter_spool import read_all_counters
from lanescope.watch.fit import default_of
from lanescope.watch.limits import pcie_links
from lanescope.watch.payload import payload_records
from lanescope.watch.preparing import prepare_all
from lanescope.watch.sources.pm import PmSource
from lanescope.watch.timeline import PCIE, Timeline

#: Idle time on both sides, so that the kernel's traffic lies inside of what is sampled.
_MARGIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class MappedTraffic:
    """What one run of a kernel moves.

    Attributes
    ----------
    h2d_bytes, d2h_bytes
        Payload over the link, of one run.
    runs
        Over how many that is the mean.
    """

    h2d_bytes: float
    d2h_bytes: float
    runs: int


def mapped_traffic(
    machine: Machine, gpu: int, memory: GridMemory, case: GridCase, budget_seconds: float = 0.2
) -> MappedTraffic:
    """Count what a case's kernel moves when it works on mapped memory.

    Raises
    ------
    NotMeasuredError
        If PM sampling does not work here.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = PmSource(machine.gpu(gpu), Path(folder))
        answer = source.available(machine)
        if not answer.ok:
            raise NotMeasuredError(answer.reason or "PM sampling does not work.", answer.remedy)
        if (refused := prepare_all([source])[0]) is not None:
            raise refused
        source.start()
        try:
            time.sleep(_MARGIN_SECONDS)
            times = run_case(memory, case, Method.IMPLICIT, 1, budget_seconds)
            time.sleep(_MARGIN_SECONDS)
        finally:
            source.stop()
        return _counted(machine, gpu, Path(folder), runs=len(times.seconds))


def counted_reads(traffic: MappedTraffic, case: GridCase, once: MappedTraffic) -> float:
    """Return how often a case reads each byte, from what it moves.

    `once` is what ``axpy`` moves on the same grid, which reads each byte once: kernels' reads are
    answered in shorter packets than copies, and so by more bytes on the wire than counters
    take for payload.
    """
    arrays = GridCase(Kernel.AXPY).input_arrays / case.input_arrays
    return traffic.h2d_bytes / once.h2d_bytes * arrays


def _counted(machine: Machine, gpu: int, folder: Path, runs: int) -> MappedTraffic:
    counters = next(c for c in read_all_counters(folder) if c.link == PCIE)
    links = pcie_links(machine, gpu)
    model = default_of(Timeline(0, 0), counters, links[0].pcie if links else None)
    sums = [payload[:, :2].sum(axis=0) for _, payload in payload_records(counters, model)]
    down, up = (float(sum(column)) for column in zip(*sums, strict=True))
    total = runs + UNCOUNTED_RUNS  # which move as much
    return MappedTraffic(down / total, up / total, runs)
