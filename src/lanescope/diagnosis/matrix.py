"""What a whole run saw of each path: the material that all rules work on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lanescope.diagnosis.seen import Seen, Way
from lanescope.experiment import Copy, Engine, Operation, Timing
from lanescope.experiment.experiment import needs_host_clock
from lanescope.experiment.limit import limits
from lanescope.machine import Machine
from lanescope.measurement.result import CopyResult, Result, Source
from lanescope.measurement.verdict import JUDGED_BYTES
from lanescope.units.bandwidth import bandwidth_gbs

Run = tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """All experiments that count, one for each set of ways that run at once.

    Attributes
    ----------
    runs
        The copies of an experiment by their sorted ways. Of experiments with the
        same ways the largest copies timed on the GPU are kept.
    memory_gbs
        For each node the best rate at which host threads copied within its memory,
        read and written bytes together, in GB/s.
    """

    machine: Machine
    runs: Mapping[tuple[Way, ...], Run]
    memory_gbs: Mapping[str, float]

    @property
    def alone(self) -> Iterator[Seen]:
        """Copies that ran with no other at the same time."""
        return (run[0] for run in self.runs.values() if len(run) == 1)

    @property
    def together(self) -> Iterator[Run]:
        """Experiments of several copies."""
        return (run for run in self.runs.values() if len(run) > 1)

    def of_ways(self, *ways: Way) -> Run | None:
        """Return the experiment that has exactly these ways, or None."""
        return self.runs.get(tuple(sorted(ways)))

    def host_copies(self, gpu: str, down: bool) -> dict[str, Seen]:
        """Return a GPU's copies from (`down`) or to the host that ran alone, by node."""
        copies = (s for s in self.alone if s.over_host and s.gpu == gpu and s.down == down)
        return {seen.host: seen for seen in copies}

    def best_host_copy(self, gpu: str, down: bool) -> Seen | None:
        """Return a GPU's fastest copy from or to a node, to be compared with other GPUs.

        None where the node that is told to be near was not measured: a far one
        says nothing about the GPU's own link.
        """
        copies = self.host_copies(gpu, down)
        near = self.machine.gpu(int(gpu[1:])).node
        if not copies or (near is not None and f"h{near}" not in copies):
            return None
        return max(copies.values(), key=lambda seen: seen.gbs)

    def best_host_copies(self, gpu: str) -> tuple[Seen, ...]:
        """Return `best_host_copy` of both directions, as far as known."""
        both = (self.best_host_copy(gpu, down) for down in (True, False))
        return tuple(seen for seen in both if seen is not None)


def matrix_of(machine: Machine, results: Sequence[Result]) -> Matrix:
    """Return what counts of some results: measured, by copy engines, large and pinned."""
    runs: dict[tuple[Way, ...], Run] = {}
    memory: dict[str, float] = {}
    for result in results:
        if result.source is Source.PREDICTED or len(result.copies) != len(result.experiment.copies):
            continue
        _note_memory(memory, result)
        if not all(_counts(machine, copy) for copy in result.experiment.copies):
            continue
        if not all(copy.own_rate for copy in result.copies):
            continue  # some waited for others: no rate that a rule could go by
        run = _run(machine, result)
        key = tuple(sorted(seen.way for seen in run))
        if run and (key not in runs or _weight(run) >= _weight(runs[key])):
            runs[key] = run
    return Matrix(machine, runs, memory)


def _run(machine: Machine, result: Result) -> Run:
    bounds = limits(machine, result.experiment)
    return tuple(
        Seen(result.experiment, c.copy, _gbs(c), limit, result.staged, result.links)
        for c, limit in zip(result.copies, bounds, strict=True)
    )


def _gbs(result: CopyResult) -> float:
    return bandwidth_gbs(result.copy.counted_bytes, result.statistics.median_seconds)


def _counts(machine: Machine, copy: Copy) -> bool:
    known = {node.id for node in machine.nodes} | {gpu.id for gpu in machine.gpus}
    return (
        copy.engine is Engine.CE
        and copy.operation is Operation.COPY
        and not needs_host_clock(copy)
        # Each piece of a copy is as dear as a small copy.
        and copy.bytes // copy.pieces >= JUDGED_BYTES
        and {copy.source.part, copy.destination.part} <= known
        and copy.source.part != copy.destination.part
    )


def _weight(run: Run) -> tuple[bool, int]:
    gated = run[0].experiment.timing is Timing.GATE
    return gated, min(seen.copy.bytes for seen in run)


def _note_memory(memory: dict[str, float], result: Result) -> None:
    copy, node = result.copies[0].copy, result.copies[0].copy.source.part
    within = len(result.copies) == 1 and copy.destination.part == node
    if within and copy.engine is Engine.CPU and copy.operation is Operation.COPY:
        memory[node] = max(memory.get(node, 0.0), _gbs(result.copies[0]))
