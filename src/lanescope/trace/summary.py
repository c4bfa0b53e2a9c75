"""What a watch has seen, in numbers that tables, JSON and conditions share; and conditions on them.

A condition, such as ``h2d.p50 > 40GB/s``, is read, then evaluated::

    [gN.](h2d|d2h|nvlink-rx|nvlink-tx).(mean|p50|p99|peak|bytes|busy|share)[@(10us|1ms|1s)]
        (<|<=|>|>=) NUMBER UNIT

Without ``gN.`` every GPU must hold it. Rates of windows are those over 1 ms where nothing
else is asked for; of NVLink those over 10 ms, which ``@10ms`` names.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from lanescope.errors import InputError
from lanescope.trace.attribution import CopyGroup, LineCopies, Share
from lanescope.trace.busy import GpuTime, InCopies
from lanescope.trace.codes import BoolArray, DirectionCode, OperationCode
from lanescope.trace.limits import DIRECTIONS, NVLINK_DIRECTIONS, LinkLimit
from lanescope.trace.link_error_log import LinkErrors
from lanescope.trace.operations import Operations
from lanescope.trace.probe import ProbedDirection
from lanescope.trace.rates import Rates, Unexplained
from lanescope.trace.run import BoostOutcome, Slowdown, WatchTurns
from lanescope.trace.side_tables import ManagedKind
from lanescope.trace.timeline import Timeline
from lanescope.trace.watch_folder import SampleLearning
from lanescope.trace.wire_fit import Alignment
from lanescope.units.sizes import bandwidth_gbs, parse_size

_DIRECTIONS = (DirectionCode.H2D, DirectionCode.D2H, DirectionCode.P2P)
RATES = ("mean", "p50", "p99", "peak")
METRICS = (*RATES, "bytes", "busy", "share")
DEFAULT_WINDOW_NS = 1_000_000
#: The driver's counters of NVLink are read so often.
DEFAULT_NVLINK_WINDOW_NS = 10_000_000
_WINDOWS = {"10us": 10_000, "1ms": 1_000_000, "1s": 1_000_000_000}
_NVLINK_WINDOWS = {**_WINDOWS, "10ms": DEFAULT_NVLINK_WINDOW_NS}
_ALL_DIRECTIONS = (*DIRECTIONS, *NVLINK_DIRECTIONS)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(.*)")
_PARTS = re.compile(r"\s*([^<>=\s]+)\s*([<>=!]+)\s*(.*?)\s*")


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
    turns: WatchTurns | None = None
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
    return np.equal(o.what, OperationCode.MIGRATION)


def _direction(timeline: Timeline, gpu: int, direction: DirectionCode) -> ManagedDirection:
    chosen = lambda o: _migrated(o) & (o.direction == direction)  # noqa: E731
    rows = timeline.operations.where(chosen, "bytes", device=gpu)
    total = rows.total("bytes")
    seconds = sum(float(piece.seconds.sum()) for piece in rows.pieces())
    mean, faults = total / max(len(rows), 1), _faults(timeline, gpu, direction)
    return ManagedDirection(gpu, direction.label, len(rows), total, mean, seconds, faults)


def _faults(timeline: Timeline, gpu: int, direction: DirectionCode) -> int | None:
    managed = timeline.managed
    if not len(managed) or direction is DirectionCode.P2P:
        return None
    if direction is DirectionCode.H2D:
        mine = (managed.kind == ManagedKind.GPU_FAULT) & (managed.device == gpu)
    else:
        mine = managed.kind == ManagedKind.CPU_FAULT
    return int(managed.value[mine].sum())


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition.

    Attributes
    ----------
    text
        As it was given.
    gpu
        None for every GPU.
    window_ns
        For p50, p99 and peak; None for others.
    bound
        In GB/s, bytes, or as a share, as the metric is.
    """

    text: str
    gpu: int | None
    direction: str
    metric: str
    window_ns: int | None
    comparison: str
    bound: float


@dataclass(frozen=True, slots=True)
class ConditionOutcome:
    """What became of a condition.

    Attributes
    ----------
    passed
        None where a value is not known: that is no pass.
    measured
        By way, such as ``("g0.h2d", 51.2)``, in the unit of the bound; None when unknown.
    sentence
        The outcome in words.
    """

    assertion: Assertion
    passed: bool | None
    measured: tuple[tuple[str, float | None], ...]
    sentence: str


def parse(text: str) -> Assertion:
    """Return a condition.

    Raises
    ------
    InputError
        If it cannot be read; the sentence names the part at fault.

    >>> parse("g0.d2h.bytes < 2GiB").bound
    2147483648.0
    """
    match = _PARTS.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} compares nothing; write for example 'h2d.p50 > 40GB/s'")
    name, comparison, bound = match.groups()
    if comparison not in _COMPARE:
        raise _error(comparison, text, f"no comparison; use {_listed(_COMPARE)}")
    gpu, direction, metric, window = _name(name, text)
    return Assertion(text, gpu, direction, metric, window, comparison, _bound(bound, metric, text))


def evaluate(assertion: Assertion, summary: Summary) -> ConditionOutcome:
    """Return whether a summary holds a condition."""
    directions = [
        one
        for one in (*summary.directions, *summary.nvlinks)
        if one.direction == assertion.direction and assertion.gpu in (None, one.gpu)
    ]
    measured = tuple((one.label, _value(one, assertion)) for one in directions)
    holds = _COMPARE[assertion.comparison]
    known = [value for _, value in measured if value is not None]
    failed = not all(holds(value, assertion.bound) for value in known)
    unknown = not measured or len(known) < len(measured)
    passed = False if failed else None if unknown else True
    values = ", ".join(f"{label} {_text(value, assertion.metric)}" for label, value in measured)
    word = {True: "holds", False: "does not hold", None: "is not known"}[passed]
    return ConditionOutcome(
        assertion, passed, measured, f"{assertion.text} {word}: {values or 'nothing was watched'}."
    )


def _name(name: str, text: str) -> tuple[int | None, str, str, int | None]:
    path, at, window = name.partition("@")
    parts = path.split(".")
    gpu = None
    if re.fullmatch(r"g[0-9]{1,4}", parts[0]):
        gpu = int(parts.pop(0)[1:])
    if not parts or parts[0] not in _ALL_DIRECTIONS:
        hint = f"no direction; write {_listed(_ALL_DIRECTIONS)}"
        raise _error(parts[0] if parts else name, text, hint)
    if len(parts) != 2 or parts[1] not in METRICS:
        wrong = ".".join(parts[1:]) or name
        raise _error(wrong, text, f"nothing that is measured; use {_listed(METRICS)}")
    windowed = parts[1] in RATES[1:]
    over_nvlink = parts[0] in NVLINK_DIRECTIONS
    windows = _NVLINK_WINDOWS if over_nvlink else _WINDOWS
    if at and (window not in windows or not windowed):
        hint = f"use {_listed(windows)}, with {_listed(RATES[1:])}"
        raise _error(at + window, text, f"no window here; {hint}")
    default = DEFAULT_NVLINK_WINDOW_NS if over_nvlink else DEFAULT_WINDOW_NS
    chosen = windows.get(window, default) if windowed else None
    return gpu, parts[0], parts[1], chosen


def _bound(bound: str, metric: str, text: str) -> float:
    if metric == "bytes":
        try:
            return 0.0 if re.fullmatch(r"0\s*[A-Za-z]*", bound) else float(parse_size(bound))
        except InputError:
            raise _error(bound, text, "no size; write for example 2GiB") from None
    match = _NUMBER.fullmatch(bound)
    if match is not None:
        number, unit = float(match[1]), match[2]
        if metric not in RATES and unit in ("%", ""):
            return number / 100 if unit else number
        if metric in RATES and unit.endswith("/s"):
            try:
                return bandwidth_gbs(number * parse_size(f"1{unit[:-2]}"), 1.0)
            except InputError:
                pass
    wanted = "rate; write for example 40GB/s" if metric in RATES else "share; write for example 5%"
    raise _error(bound, text, f"no {wanted}")


def _value(one: DirectionSummary, assertion: Assertion) -> float | None:
    rates = one.rates
    if assertion.metric == "share":
        return one.share_of_limit
    if rates is None:
        return None
    if assertion.window_ns is None:
        plain = {
            "mean": rates.mean_gbs,
            "bytes": rates.payload_bytes,
            "busy": rates.busy_share,
        }
        return plain[assertion.metric]
    for window in rates.windows:
        if window.window_ns == assertion.window_ns:
            found: float | None = getattr(window, f"{assertion.metric}_gbs")
            return found
    return None


def _text(value: float | None, metric: str) -> str:
    if value is None:
        return "not known"
    if metric == "bytes":
        return f"{value:.0f} B"
    return f"{value:.4g} GB/s" if metric in RATES else f"{value * 100:.3g} %"


def _error(part: str, text: str, what: str) -> InputError:
    return InputError(f"{part!r} in {text!r} is {what}")


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return f"{', '.join(every[:-1])} or {every[-1]}"
