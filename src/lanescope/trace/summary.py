"""What a watch has seen, in numbers: the values that tables, JSON and assertions share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.trace.attribution import CopyGroup, LineCopies, Share
from lanescope.trace.busy import GpuTime, InCopies
from lanescope.trace.codes import BoolArray, Direction, What
from lanescope.trace.limits import LinkLimit
from lanescope.trace.link_error_log import LinkErrors
from lanescope.trace.operations import Operations
from lanescope.trace.probe import ProbedDirection
from lanescope.trace.rates import Rates, Unexplained
from lanescope.trace.run import BoostOutcome, Slowdown, Turns
from lanescope.trace.side_tables import ManagedKind
from lanescope.trace.timeline import Timeline
from lanescope.trace.watch_folder import SampleLearning
from lanescope.trace.wire_fit import Alignment

_DIRECTIONS = (Direction.H2D, Direction.D2H, Direction.P2P)


@dataclass(frozen=True, slots=True)
class DirectionSummary:
    """One direction of one GPU's link.

    Attributes
    ----------
    direction
        ``h2d`` or ``d2h``; over all NVLinks of the GPU ``nvlink-rx`` or ``nvlink-tx``.
    told
        Whose rates are told: ``counters`` where there are any, else ``trace``; None
        without both.
    source
        Where those come from, as a phrase with the sampling interval or the model.
    rates
        Payload and rates by `told`; None without any.
    counter_bytes, traced_bytes
        Payload by each source, over its known time; None without it.
    unattributed_bytes
        Counted payload that no traced copy explains, in the counters' known time; None
        without both sources. Differences below 0.5 % are 0: counters are no more exact.
    limit
        What the link can carry.
    unexplained
        When the unattributed bytes crossed the link; None where there are none.
    slow_bytes
        What else was counted and is not in `counter_bytes`: too slow for copies of some size, and
        no recorded copy's. Commands of launches, mostly.
    untraced_bytes
        Counted payload that no copy explains while the trace of a process was missing, and its
        calls were not recorded: these are not among the unattributed. None where no trace was.
    crossed_bytes
        Of recorded copies that are known to have crossed while the counters counted: counters that
        hold less are wrong, or the copies went another way. None without both sources.
    """

    gpu: int
    direction: str
    told: str | None
    source: str
    rates: Rates | None
    counter_bytes: float | None
    traced_bytes: float | None
    unattributed_bytes: float | None
    limit: LinkLimit
    unexplained: Unexplained | None = None
    slow_bytes: float = 0.0
    untraced_bytes: float | None = None
    crossed_bytes: float | None = None

    @property
    def label(self) -> str:
        """The way as assertions name it, such as ``g0.h2d``."""
        return f"g{self.gpu}.{self.direction}"

    @property
    def share_of_limit(self) -> float | None:
        """Mean rate as a share of what the link can carry; None when one is unknown."""
        if self.rates is None or self.rates.mean_gbs is None or not self.limit.gbs:
            return None
        return self.rates.mean_gbs / self.limit.gbs


@dataclass(frozen=True, slots=True)
class Losses:
    """What was not recorded.

    Attributes
    ----------
    samples, records
        Lost counter samples and trace records, as far as the sources know.
    unknown_seconds
        Seconds of the watch of which the counters know nothing, the worst GPU's; None without
        counters. This and `samples` are of PCIe.
    cut_processes
        Processes whose trace did not end in order.
    unfinished
        Operations that were under way when their process ended.
    nvlink_samples, nvlink_unknown_seconds
        As `samples` and `unknown_seconds`, of NVLink.
    before_seconds
        Of `unknown_seconds`: before the first sample of the GPU that was counted last. A program's
        first use of CUDA waits for counters.
    """

    samples: int
    records: int
    unknown_seconds: float | None
    cut_processes: tuple[int, ...]
    unfinished: int = 0
    nvlink_samples: int = 0
    nvlink_unknown_seconds: float | None = None
    before_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a source took.

    Attributes
    ----------
    cpu_seconds
        Processor time; None when unknown.
    asked
        Samples of ``pm`` whose values CUPTI was asked for; None when unknown.
    learned
        By ``pm``, of how values follow from samples; None when unknown.
    """

    source: str
    cpu_seconds: float | None
    asked: int | None = None
    learned: SampleLearning | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a watch has seen.

    Attributes
    ----------
    copies
        Groups of like copies, that with the most bytes first; of very many only the
        largest and the most frequent.
    shares
        Traced bytes by process, stream, thread, range and path.
    alignments
        By GPU, how counters and trace agree in time; None when too few copies tell.
    probed
        What probes have seen of each direction.
    managed
        What managed memory moved.
    slowdown
        What tracing may have cost the program; None when not known.
    turns
        What watching did cost it, where that was measured.
    boost
        What became of its copies that were to be carried; None where it was not boosted.
    in_copies
        How long the busiest threads of processes were in calls that copy.
    gpu_times
        What GPUs did whose kernels were traced.
    by_call_times
        Whether copies are timed by their calls and not by the GPU, at least some of them.
    notes
        Plain sentences on what the numbers do not say.
    nvlinks
        What crossed NVLink, as `directions`; empty where there is none.
    link_errors
        What links counted of errors while watching, by GPU; empty where nobody looked.
    by_line
        Which lines of Python copied what, that with the most bytes first.
    line_seconds
        What reading Python's frames took in the program's threads; None where nobody did.
    """

    seconds: float
    directions: tuple[DirectionSummary, ...]
    copies: tuple[CopyGroup, ...]
    shares: tuple[Share, ...]
    losses: Losses
    costs: tuple[Cost, ...]
    alignments: tuple[tuple[int, Alignment | None], ...] = ()
    notes: tuple[str, ...] = ()
    probed: tuple[ProbedDirection, ...] = ()
    nvlinks: tuple[DirectionSummary, ...] = ()
    link_errors: tuple[LinkErrors, ...] = ()
    managed: tuple[ManagedDirection, ...] = ()
    slowdown: Slowdown | None = None
    turns: Turns | None = None
    boost: BoostOutcome | None = None
    in_copies: tuple[InCopies, ...] = ()
    gpu_times: tuple[GpuTime, ...] = ()
    by_call_times: bool = False
    by_line: tuple[LineCopies, ...] = ()
    line_seconds: float | None = None

    def most_frequent(self, count: int) -> tuple[CopyGroup, ...]:
        """Return the groups with the most copies."""
        return tuple(sorted(self.copies, key=lambda g: -g.count)[:count])

    def shares_by(self, by: str) -> tuple[Share, ...]:
        """Return the shares of one way to ask: one of `DIRECTIONS_TO_ASK`."""
        return tuple(share for share in self.shares if share.by == by)


@dataclass(frozen=True, slots=True)
class ManagedDirection:
    """Migrations of one direction of one GPU.

    Attributes
    ----------
    direction
        ``h2d``, ``d2h`` or ``p2p``.
    mean_bytes
        Of a migration.
    seconds
        Their time in sum.
    faults
        Page faults of the GPU, beside ``h2d``; of CPUs beside ``d2h``, those of the whole
        process, as they are of no GPU. None where they were not traced.
    """

    gpu: int
    direction: str
    count: int
    total_bytes: int
    mean_bytes: float
    seconds: float
    faults: int | None


def managed_directions(timeline: Timeline) -> tuple[ManagedDirection, ...]:
    """Return what managed memory moved, by GPU and direction; nothing where nothing was seen."""
    gpus = sorted(timeline.operations.values("device", _migrated))
    found = [_direction(timeline, gpu, direction) for gpu in gpus for direction in _DIRECTIONS]
    return tuple(direction for direction in found if direction.count)


def _migrated(o: Operations) -> BoolArray:
    return np.equal(o.what, What.MIGRATION)


def _direction(timeline: Timeline, gpu: int, direction: Direction) -> ManagedDirection:
    chosen = lambda o: _migrated(o) & (o.direction == direction)  # noqa: E731
    rows = timeline.operations.where(chosen, "bytes", device=gpu)
    total = rows.total("bytes")
    seconds = sum(float(piece.seconds.sum()) for piece in rows.pieces())
    mean, faults = total / max(len(rows), 1), _faults(timeline, gpu, direction)
    return ManagedDirection(gpu, direction.label, len(rows), total, mean, seconds, faults)


def _faults(timeline: Timeline, gpu: int, direction: Direction) -> int | None:
    managed = timeline.managed
    if not len(managed) or direction is Direction.P2P:
        return None
    if direction is Direction.H2D:
        mine = (managed.kind == ManagedKind.GPU_FAULT) & (managed.device == gpu)
    else:
        mine = managed.kind == ManagedKind.CPU_FAULT
    return int(managed.value[mine].sum())
