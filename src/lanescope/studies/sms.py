"""``bench sms``: how few SMs fill a path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import DEFAULT_BYTES, Copy, Engine, copies_text
from lanescope.copies.experiment import Experiment, experiment_of
from lanescope.copies.kernel_shapes import KIB, LOADS, has_bulk_copies
from lanescope.copies.patterns import reach_each_other
from lanescope.copies.requirements import chosen_gpus, missing_part
from lanescope.copies.terms import Memory, Operation, Place
from lanescope.document.blocks import (
    Bullets,
    ColumnOf,
    Kind,
    Section,
    Span,
    Style,
    Table,
    TableCell,
    Text,
)
from lanescope.document.contents import Axis, Chart, Curve
from lanescope.engine.sampling import Plan
from lanescope.errors import command
from lanescope.machine import Gpu, Machine
from lanescope.report.format import bytes_text, count_text, gbs_text, percent_text
from lanescope.results import CopyResult, Result, Source
from lanescope.store.run import Run
from lanescope.studies import gpu_option, size_option
from lanescope.studies.study import Study, Work
from lanescope.units.sizes import Size, bandwidth_gbs, size_of

#: Few SMs fill a PCIe link, so that these lie close together at the lower end.
_HOST_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
_PEER_COUNTS = (4, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64)
_HOST_CHUNKS = (LOADS, 16 * KIB)
_PEER_CHUNKS = (LOADS, 16 * KIB, 32 * KIB, 64 * KIB)
#: SMs between which a pace is tried, and the chunks that keep one.
_PACED_COUNTS = (8, 9, 10, 12, 16, 24, 32)
_PACED_CHUNKS = (16 * KIB, 32 * KIB)
#: A pace just below the plateau: at it, some links already queue.
_PACE_SHARE = 0.99

CopyPath = tuple[str, str, str]  # source, destination, executing GPU


_SPREAD = "Bandwidth at the 95th and the 5th percentile of the time"
#: Share of the plateau that counts as all of it.
FULL_SHARE = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Sms(Study):
    """Find the fewest SMs that carry 98 % of what kernels can, for each path of a GPU.

    A kernel that copies on few SMs leaves the others to compute. Tries several kernels
    on many numbers of SMs: host to GPU and back, and to and from the first peer.

    Attributes
    ----------
    gpus
        Numbers of the GPUs; None takes the first.
    size_bytes
        Size of each copy.
    """

    verb: ClassVar[str] = "sms"
    title: ClassVar[str] = "Fewest SMs"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.3)
    judges_paths: ClassVar[bool] = False
    of_what: ClassVar[str] = "one kernel"
    predicted: ClassVar[bool] = False

    gpus: Annotated[int | Sequence[int] | None, gpu_option("GPU to try")] = None
    size_bytes: Annotated[Size, size_option("Bytes of each copy.", "512MiB")] = DEFAULT_BYTES

    def work(self, machine: Machine) -> Work:
        """Return kernels' copies of many shapes."""
        if not machine.gpus or machine.described:
            raise missing_part(
                machine,
                f"machine {machine.name!r} has no GPU here whose SMs could copy; "
                f"{command('check')} measures host memory",
            )
        gpus = chosen_gpus(machine, self.gpus)
        return Work(sms_experiments(machine, gpus, size_of(self.size_bytes)))

    def further(self, machine: Machine, results: Sequence[Result]) -> Sequence[Experiment]:
        """Return the kernels that write to peers again, at a pace below their plateau."""
        plateaus = {curve.path_ends: curve.plateau_gbs for curve in sm_curves(results)}
        return paced_experiments(machine, plateaus, size_of(self.size_bytes))

    @classmethod
    def conclusion(cls, run: Run) -> str | None:
        """Return the fewest SMs of all paths."""
        if not (curves := sm_curves(run.results)):
            return None
        counts = ", ".join(f"{curve.title}: {curve.fewest.sms}" for curve in curves)
        return f"SMs that carry {FULL_SHARE * 100:.0f} % of what kernels can. {counts}."

    @classmethod
    def report(cls, run: Run) -> Sequence[Section]:
        """Return each path's curve, and how few SMs are enough."""
        curves = sm_curves(run.results)
        if not curves:
            return ()
        return (
            Section(
                "sms",
                cls.title,
                (
                    Bullets([curve_sentence(curve) for curve in curves]),
                    *map(_curve_table, curves),
                    Text(EXPLANATION, Style.QUIET),
                    _chart(curves),
                ),
            ),
        )


def sms_experiments(
    machine: Machine, gpus: Iterable[Gpu], size: int = DEFAULT_BYTES
) -> tuple[Experiment, ...]:
    """Return kernels' copies of many shapes: host and GPU each way, and to and from a peer.

    Each GPU is tried with the first other one that it can reach, reading and writing.
    """
    experiments: list[Experiment] = []
    for gpu in gpus:
        host = Place(machine.nearest_node(gpu).id, Memory.PINNED)
        here = Place(gpu.id, Memory.DEVICE)
        for ends in ((host, here), (here, host)):
            experiments += _shapes(gpu, *ends, size, _HOST_COUNTS, _HOST_CHUNKS)
        other = next((g for g in machine.gpus if g != gpu and reach_each_other(g, gpu)), None)
        if other is not None:
            there = Place(other.id, Memory.DEVICE)
            for ends in ((there, here), (here, there)):
                experiments += _shapes(gpu, *ends, size, _PEER_COUNTS, _PEER_CHUNKS)
    return tuple(experiments)


def paced_experiments(
    machine: Machine, plateaus: dict[CopyPath, float], size: int = DEFAULT_BYTES
) -> tuple[Experiment, ...]:
    """Return writes to peers that keep a pace just below what was reached without one.

    Writes that push harder than the links take wait in the order in which they were
    made, also for links that are free.

    Parameters
    ----------
    plateaus
        Best rate of each way so far, GB/s.
    """
    experiments = []
    for (source, destination, executor), gbs in plateaus.items():
        gpu = next(g for g in machine.gpus if g.id == executor)
        to_peer = executor == source and destination.startswith("g")
        if not to_peer or not has_bulk_copies(gpu):
            continue
        ends = (Place(source, Memory.DEVICE), Place(destination, Memory.DEVICE))
        every = gpu.multiprocessors or max(_PACED_COUNTS)
        for sms in (count for count in _PACED_COUNTS if count <= every):
            for chunk in _PACED_CHUNKS:
                pace = round(gbs * _PACE_SHARE, 1)
                experiments.append(_copy(*ends, size, gpu, sms, chunk, pace))
    return tuple(experiment_of([copy]) for copy in experiments)


def _shapes(
    gpu: Gpu,
    source: Place,
    destination: Place,
    size: int,
    counts: Sequence[int],
    chunks: Sequence[int],
) -> list[Experiment]:
    every = gpu.multiprocessors or max(counts)
    usable = [chunk for chunk in chunks if chunk == LOADS or has_bulk_copies(gpu)]
    return [
        experiment_of([_copy(source, destination, size, gpu, sms, chunk)])
        for sms in sorted({min(count, every) for count in (*counts, every)})
        for chunk in usable
    ]


def _copy(
    source: Place,
    destination: Place,
    size: int,
    gpu: Gpu,
    sms: int,
    chunk: int,
    pace_gbs: float | None = None,
) -> Copy:
    return Copy(
        source,
        destination,
        size,
        Engine.SM,
        executor=gpu.id if source.memory is destination.memory is Memory.DEVICE else None,
        sms=sms,
        chunk_bytes=chunk,
        pace_gbs=pace_gbs,
    )


@dataclass(frozen=True, slots=True)
class SmPoint:
    """The best shape with a number of SMs.

    Attributes
    ----------
    gbs
        Its bandwidth, GB/s.
    low_gbs, high_gbs
        At the 95th and the 5th percentile of the time.
    """

    sms: int
    gbs: float
    low_gbs: float
    high_gbs: float
    copy: Copy

    @property
    def command(self) -> str:
        """What `lanescope copy` takes to run it again."""
        return copies_text([self.copy])


@dataclass(frozen=True, slots=True)
class SmCurve:
    """Bandwidth of one path by number of SMs.

    Attributes
    ----------
    path_ends
        Source, destination and the GPU that works.
    points
        By ascending number of SMs; of the shapes tried with each the best.
    plateau_gbs
        The best of all.
    fewest
        The first point with 98 % of the plateau.
    """

    path_ends: tuple[str, str, str]
    points: tuple[SmPoint, ...]
    plateau_gbs: float
    fewest: SmPoint

    @property
    def title(self) -> str:
        """The path in words, such as ``g0 writes to g1``."""
        source, destination, executor = self.path_ends
        if executor == source:
            return f"{source} writes to {destination}"
        return f"{destination} reads from {source}"


def sm_curves(results: Iterable[Result]) -> tuple[SmCurve, ...]:
    """Return a curve for each path of which copies on chosen numbers of SMs were measured."""
    found: dict[tuple[str, str, str], dict[int, list[CopyResult]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        if len(result.copies) != 1 or result.source is Source.PREDICTED:
            continue
        copy = result.copies[0].copy
        executor = copy.executing_gpu
        if copy.engine is Engine.SM and copy.operation is Operation.COPY and copy.sms and executor:
            path_ends = (copy.source.part, copy.destination.part, executor)
            found[path_ends][copy.sms].append(result.copies[0])
    return tuple(
        _curve(path_ends, by_count) for path_ends, by_count in found.items() if len(by_count) > 1
    )


def _curve(path_ends: tuple[str, str, str], by_count: dict[int, list[CopyResult]]) -> SmCurve:
    points = tuple(_best(sms, copies) for sms, copies in sorted(by_count.items()))
    plateau = max(p.gbs for p in points)
    fewest = next(p for p in points if p.gbs >= FULL_SHARE * plateau)
    return SmCurve(path_ends, points, plateau, fewest)


def _best(sms: int, copies: list[CopyResult]) -> SmPoint:
    best = max(copies, key=lambda c: c.gbs or 0.0)
    times = best.statistics
    ends = (times.median_seconds, times.p95_seconds, times.p5_seconds)
    median, low, high = (bandwidth_gbs(best.copy.counted_bytes, seconds) for seconds in ends)
    return SmPoint(sms, median, low, high, best.copy)


EXPLANATION = (
    "Of each number of SMs the best of several kernels is shown: loads and stores, or bulk copies "
    "through shared memory, with a pace where that helps. The plateau is the best of all numbers; "
    f"{FULL_SHARE * 100:.0f} % of it counts as full."
)


def curve_sentence(curve: SmCurve) -> str:
    """Return how few SMs are enough, and how to run that again."""
    best = curve.fewest
    return (
        f"{curve.title}: {count_text(best.sms, 'SM')} carry {gbs_text(best.gbs)} GB/s, "
        f"{percent_text(best.gbs / curve.plateau_gbs)} of the {gbs_text(curve.plateau_gbs)} that "
        f"any number reaches, by {kernel_text(best)}: lanescope copy '{best.command}'"
    )


def kernel_text(point: SmPoint) -> str:
    """Return how a kernel copies, in a few words."""
    chunk = point.copy.chunk_bytes
    how = f"bulk copies of {bytes_text(chunk)}" if chunk else "loads and stores"
    pace = point.copy.pace_gbs
    return how if pace is None else f"{how} at a pace of {gbs_text(pace)} GB/s"


def _curve_table(curve: SmCurve) -> Table:
    """Return a row for each number of SMs, with a bar as long as its bandwidth."""
    fewest = curve.fewest
    columns: list[ColumnOf[SmPoint]] = [
        ColumnOf("SMs", lambda one: TableCell(one.sms, strong=one is fewest), Kind.COUNT),
        ColumnOf("GB/s", lambda one: TableCell(one.gbs, strong=one is fewest), Kind.GBS),
        ColumnOf("p5 to p95", lambda one: Span(one.low_gbs, one.high_gbs), Kind.GBS, _SPREAD),
        ColumnOf("of plateau", lambda one: one.gbs / curve.plateau_gbs, Kind.SHARE),
        ColumnOf("", lambda one: one.gbs / curve.plateau_gbs, Kind.BAR),
        ColumnOf("kernel", kernel_text),
    ]
    return Table.of(f"{curve.title}: bandwidth by number of SMs", columns, curve.points)


def _chart(curves: Sequence[SmCurve]) -> Chart:
    return Chart(
        "sms",
        "sms",
        "Bandwidth of copy kernels by number of SMs",
        "As a share of the plateau of each path; the best kernel for each number",
        Axis("SMs", log=True),
        Axis("Share of the plateau", "%"),
        tuple(
            Curve(
                f"{curve.title} ({gbs_text(curve.plateau_gbs)} GB/s)",
                tuple(float(p.sms) for p in curve.points),
                tuple(p.gbs / curve.plateau_gbs * 100 for p in curve.points),
                colour=number,
            )
            for number, curve in enumerate(curves)
        ),
    )
