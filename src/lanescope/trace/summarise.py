"""From a timeline to its summary, with how bursts agree with copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.machine import Machine
from lanescope.trace.attribution import attribution, copies_by_line, copy_groups
from lanescope.trace.busy import gpu_times, in_copies
from lanescope.trace.codes import BoolArray, DirectionCode, IntArray
from lanescope.trace.limits import DIRECTIONS, Ceilings, link_limits, pcie_links
from lanescope.trace.nvlink_rates import crossed_pcie, nvlink_directions, nvlink_notes, pcie_notes
from lanescope.trace.operations import Operations
from lanescope.trace.probe import probe_notes, probed_directions
from lanescope.trace.rates import (
    Rates,
    UnexplainedMeter,
    counter_rates,
    operation_rates,
    split_text,
    unexplained,
    unexplained_within,
    without_slow,
    without_windows,
)
from lanescope.trace.rectangles import KnownMeter, KnownTime, bytes_in_known
from lanescope.trace.stored_columns import each_in_a_thread
from lanescope.trace.summary import Cost, DirectionSummary, Losses, Summary, managed_directions
from lanescope.trace.time_checks import impossible_note, no_room_note
from lanescope.trace.timeline import (
    NVLINK,
    PCIE,
    Counters,
    Process,
    Timeline,
    best_counters,
)
from lanescope.trace.windows import window_text
from lanescope.trace.wire import RESOLUTION, WireModel
from lanescope.trace.wire_fit import Aligner, Alignment, model_of, slow_bytes
from lanescope.units.sizes import binary_text

#: Sources whose samples show single transfers.
FINE = ("pm",)
#: Outside of the sampler's own bursts an idle H200 showed at most 512 bytes in a sample, the
#: samples themselves on their way to the host; so much counts as traffic.
LEAST_BYTES = 1024
#: With NVLinks watched, too, an H100 sends 1 to 1.5 KiB a sample all the time. What every sample
#: has is taken for that up to so much, whatever its interval; more is traffic without a pause.
MOST_STEADY_BYTES = 3072
#: A copy of 4 KiB is 4,096 bytes on the wire and more; this tells it from notes of 1.5 KB that
#: CUDA's driver writes every 100 ms.
LEAST_BURST_BYTES = 3584


@dataclass(frozen=True, slots=True, eq=False)
class Bursts:
    """Runs of samples with traffic, in one direction.

    Attributes
    ----------
    start_ns, end_ns
        Of each burst, nanoseconds since 1970; as exact as samples are apart.
    wire_bytes
        That the GPU received or sent in it, protocol included.
    """

    start_ns: IntArray
    end_ns: IntArray
    wire_bytes: IntArray

    def __len__(self) -> int:
        return int(self.start_ns.size)


def bursts(counters: Counters, direction: int) -> Bursts:
    """Return the bursts of one direction, 0 to the GPU and 1 from it.

    Samples during which the sampler itself used the link are left out: there a burst of less
    than 30 KB could be its own. So is what nearly every sample has. Transfers without a pause
    between them are one burst.
    """
    column = (counters.rx_bytes, counters.tx_bytes)[direction]
    mine = counters.known & ~counters.maybe_own
    if not mine.any():
        return Bursts(*(np.empty(0, np.int64) for _ in range(3)))
    column = column - _steady_bytes(column[mine])
    active = mine & (column >= LEAST_BYTES)
    first, last = _runs(active)
    moved = np.add.reduceat(np.where(active, column, 0), first) if first.size else first
    large = moved >= LEAST_BURST_BYTES
    first, last = first[large], last[large]
    return Bursts(counters.start_ns[first], counters.end_ns[last], moved[large])


def _steady_bytes(column: IntArray) -> int:
    """Return what nine of ten samples have: samples themselves on their way to the host."""
    steady = int(np.quantile(column, 0.1, method="lower")) if column.size else 0
    return steady if steady <= MOST_STEADY_BYTES else 0


def burst_notes(counters: Counters) -> tuple[str, ...]:
    """Return how many bursts there were in each direction, and how large, as sentences.

    One that goes on from one piece of a long watch to the next counts twice.
    """
    notes: list[str] = []
    sizes: tuple[list[IntArray], list[IntArray]] = ([], [])
    for part, _ in counters.pieces():
        rows = counters.rows(part)
        for direction, own in enumerate(sizes):
            own.append(bursts(rows, direction).wire_bytes)
    for words, own in zip(("to the GPU", "from it"), sizes, strict=True):
        found = np.sort(np.concatenate([np.empty(0, np.int64), *own]))
        if found.size:
            half, most = (binary_text(int(found[i])) for i in (found.size // 2, -1))
            if found.size == 1:
                words_of_burst = f"one burst of 4 KiB or more {words}, {most} on the wire"
            else:
                words_of_burst = (
                    f"{found.size} bursts of 4 KiB or more {words}, half of them up to {half} and "
                    f"the largest {most} on the wire"
                )
            notes.append(f"g{counters.gpu}: {words_of_burst}; transfers without a pause are one.")
    return tuple(notes)


def _runs(active: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first and the last row of each run of true values."""
    edges = np.diff(active.astype(np.int8), prepend=np.int8(0), append=np.int8(0))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1


#: Less than this is start-up and what watching causes.
_LEAST_UNATTRIBUTED = 1 << 20

_CANDIDATES = (
    "what CUDA moves when a program starts, processes that were not traced, host memory that "
    "kernels read in place, managed memory, copies between GPUs over PCIe, and network cards or "
    "drives that reach into the GPU"
)


def summarise(
    timeline: Timeline, machine: Machine | None = None, ceilings: Ceilings | None = None
) -> Summary:
    """Return what a watch has seen.

    Parameters
    ----------
    machine
        For the payload limits of links; None when unknown.
    ceilings
        What an earlier run measured; shares are of that where it tells.
    """
    gpus = timeline.operations.values("device", lambda o: o.moves)
    gpus |= {counters.gpu for counters in timeline.over(PCIE)}
    chosen = {gpu: best_counters(timeline, gpu) for gpu in sorted(gpus)}

    operations = timeline.timed_operations

    def of_gpu(gpu: int) -> tuple[list[DirectionSummary], list[tuple[int, Alignment | None]]]:
        counters, aligner = chosen[gpu], None
        if counters is not None and _traced(timeline):
            aligner = Aligner(counters, operations)
        directions = _directions(timeline, gpu, counters, aligner, machine, ceilings)
        return directions, [(gpu, aligner.found())] if aligner else []

    records = sum(map(len, timeline.counters))
    own = isinstance(operations.start_ns, np.ndarray)  # else all read the same stored columns
    by_gpu = each_in_a_thread(of_gpu, list(chosen), records if own else 0)
    directions = [direction for found, _ in by_gpu for direction in found]
    aligned = [alignment for _, found in by_gpu for alignment in found]
    probed = probed_directions(timeline.probes)
    nvlinks = nvlink_directions(timeline, machine, ceilings)
    notes = _notes(timeline, directions, nvlinks) + nvlink_notes(nvlinks, machine)
    return Summary(
        timeline.seconds,
        tuple(directions),
        copy_groups(timeline.operations),
        attribution(timeline.operations, timeline.processes, timeline.ranges),
        _losses(timeline, directions, nvlinks, [c for c in chosen.values() if c is not None]),
        _costs(timeline),
        tuple(aligned),
        notes + probe_notes(probed, counted=bool(timeline.over(PCIE))),
        probed,
        nvlinks,
        managed=managed_directions(timeline),
        in_copies=in_copies(timeline),
        gpu_times=gpu_times(timeline),
        by_call_times=_untimed(timeline),
        by_line=copies_by_line(timeline.operations, timeline.python_lines),
        line_seconds=timeline.python_lines.spent_ns * 1e-9 if timeline.python_lines else None,
    )


def _costs(timeline: Timeline) -> tuple[Cost, ...]:
    counters = (
        Cost(f"{c.source} of {'NVLink of ' if c.link == NVLINK else ''}g{c.gpu}", c.cpu_seconds)
        for c in timeline.counters
        if c.link != NVLINK or c.cpu_seconds is not None  # else the same thread samples PCIe
    )
    probes = (Cost(f"probe of g{p.gpu}", p.cpu_seconds) for p in timeline.probes)
    return (*counters, *probes)


def _traced(timeline: Timeline) -> bool:
    return bool(timeline.processes) or len(timeline.operations) > 0


def _untimed(timeline: Timeline) -> bool:
    return timeline.has_call_times


def _directions(
    timeline: Timeline,
    gpu: int,
    counters: Counters | None,
    aligner: Aligner | None,
    machine: Machine | None,
    ceilings: Ceilings | None,
) -> list[DirectionSummary]:
    limits = link_limits(machine, gpu, ceilings)
    gbs = (limits[0].gbs, limits[1].gbs)
    span = (timeline.start_ns, timeline.end_ns)
    counted: tuple[Rates, Rates] | None = None
    traced: tuple[Rates, Rates] | None = None
    source = "neither counted nor traced"
    model = rests = splits = known = None
    # when a probe's own bytes crossed is not taken off there: they are no program's start
    probing = any(probe.gpu == gpu for probe in timeline.probes)
    whole = not timeline.untraced_spans_ns.size and not probing
    if _traced(timeline):
        traced = operation_rates(timeline.operations, gpu, span, gbs)
        source = "traced copies, each with an even rate"
        if _untimed(timeline):
            traced = without_windows(traced[0]), without_windows(traced[1])
            source = "copies as they were called for"
    if counters is not None and counters.known.any():
        link = next((ln.pcie for ln in pcie_links(machine, gpu)), None) if machine else None
        model = model_of(timeline, counters, link)
        timed = timeline.timed_operations
        # one reading of the records does where both take the same copies' commands off
        if traced and whole and timed is timeline.operations:
            rests = UnexplainedMeter(counters, timed)
        knows = KnownMeter(counters) if traced else None
        others = [one for one in (aligner, rests, knows) if one is not None]
        counted = counter_rates(counters, model, span, gbs, timed, others)
        known = knows.found() if knows else None
        source = f"{counters.source}, {window_text(counters.interval_ns)}; {model.source}"
    basis = "counters" if counted else "trace" if traced else None
    slow = early = [0.0, 0.0]
    if counted and counters is not None and model is not None and known:
        slow, early = _slow(timeline, counters, model, known, counted)
        counted = without_slow(counted[0], slow[0]), without_slow(counted[1], slow[1])
    crossed = crossed_pcie(counters, timeline, known) if known and counters else None
    directions = []
    for i, direction in enumerate(DIRECTIONS):
        count, trace = (r[i].payload_bytes if r else None for r in (counted, traced))
        missing = _untraced(timeline, counters, model, i) if known else None
        rest = _unattributed(count, timeline, known, gpu, i, missing or 0.0) if known else None
        both = counted or traced
        rates = both[i] if both else None
        if rest and counters is not None and model is not None and whole and splits is None:
            splits = rests.found() if rests else unexplained(counters, model, timeline.operations)
        split = splits[i] if rest and splits else None
        if rest and split:
            split = split.without_slow(early[i], slow[i] - early[i], rest)
        directions.append(
            DirectionSummary(
                gpu,
                direction,
                basis,
                source,
                rates,
                count,
                trace,
                rest,
                limits[i],
                split,
                slow[i],
                missing,
                None if crossed is None else crossed[i],
            )
        )
    return directions


def _untraced(
    timeline: Timeline, counters: Counters | None, model: WireModel | None, direction: int
) -> float | None:
    """Return what no copy explains while a trace was missing; None where none was."""
    spans = timeline.untraced_spans_ns
    if counters is None or model is None or not spans.size:
        return None
    return unexplained_within(counters, model, timeline.operations, direction, spans)


def _slow(
    timeline: Timeline,
    counters: Counters,
    model: WireModel,
    known: KnownTime,
    counted: tuple[Rates, Rates],
) -> tuple[list[float], list[float]]:
    """Return how much of each direction was slow and is no copy's that the program called for.

    Then how much of it crossed before the GPU's first copy.
    """
    gpu = counters.gpu
    slow, early = slow_bytes(counters, model, _first_move(timeline.operations, gpu)).tolist()
    for i, rates in enumerate(counted):
        rest = (rates.payload_bytes or 0.0) - _explained(timeline, known, gpu, i)
        slow[i] = min(slow[i], max(rest, 0.0))
        early[i] = min(early[i], slow[i])
    return slow, early


def _first_move(operations: Operations, gpu: int) -> int | None:
    """Return when the first copy or migration of a GPU began; None without any."""
    for piece in operations.pieces():
        starts = piece.start_ns[piece.moves & (piece.device == gpu)]
        if starts.size:
            return int(starts[0])
    return None


def _explained(timeline: Timeline, known: KnownTime, gpu: int, direction: int) -> float:
    """Return the bytes of copies and probes in one direction in the time that counters know."""
    code = (DirectionCode.H2D, DirectionCode.D2H)[direction]
    own = timeline.operations.where(lambda o: o.direction == code, "bytes", device=gpu)
    probes = (probe.one_direction(direction) for probe in timeline.probes if probe.gpu == gpu)
    begin_ns, end_ns = known.edges_ns[[0, -1]].tolist()
    probed = sum(probe.bytes_between(begin_ns, end_ns) for probe in probes)
    return bytes_in_known(own, known) + probed


def _unattributed(
    counted: float | None,
    timeline: Timeline,
    known: KnownTime,
    gpu: int,
    direction: int,
    untraced: float,
) -> float | None:
    if counted is None:
        return None
    rest = counted - _explained(timeline, known, gpu, direction) - untraced
    return rest if rest > max(RESOLUTION * counted, _LEAST_UNATTRIBUTED) else 0.0


#: Of more processes whose trace is missing only the number is reported.
_MOST_MISSING = 5


def _missing_traces(timeline: Timeline, untraced_bytes: float) -> list[str]:
    """Return for each process from when on its trace is missing, and what that means."""
    cut = [p for p in timeline.processes if p.traced_until_ns is not None]
    notes = [_missing_trace(one, timeline) for one in cut[:_MOST_MISSING]]
    if len(cut) > _MOST_MISSING:
        notes.append(f"So it is of {len(cut) - _MOST_MISSING} more processes.")
    if any(not one.calls_after for one in cut) and untraced_bytes:
        notes.append(
            f"{binary_text(untraced_bytes)} were counted meanwhile that no copy explains: they are "
            "not among the bytes that are not explained."
        )
    return notes


def _missing_trace(process: Process, timeline: Timeline) -> str:
    begin_ns = process.traced_until_ns or 0
    end_ns = timeline.end_ns if process.end_ns is None else process.end_ns
    begin, end = ((at - timeline.start_ns) * 1e-9 for at in (begin_ns, max(begin_ns, end_ns)))
    after = (
        "its copies there are those that it called for, without times on the GPU, memsets, kernels "
        "and copies in graphs"
        if process.calls_after
        else "nothing tells what it copied there, as its calls were not recorded"
    )
    return (
        f"CUPTI's trace of process {process.pid} is missing from second {begin:.2f} to {end:.2f}: "
        f"{after}."
    )


def _losses(
    timeline: Timeline,
    directions: Sequence[DirectionSummary],
    nvlinks: Sequence[DirectionSummary],
    chosen: Sequence[Counters],
) -> Losses:
    unknown, before = _unknown_seconds(timeline, directions), _before_seconds(timeline, chosen)
    if unknown is not None and before is not None:
        unknown = max(unknown, before)  # samples of after the end count as known, too
    return Losses(
        sum(c.lost_samples for c in timeline.over(PCIE)),
        sum(p.lost_records for p in timeline.processes),
        unknown,
        tuple(p.pid for p in timeline.processes if not p.complete),
        sum(p.unfinished for p in timeline.processes),
        sum(c.lost_samples for c in timeline.over(NVLINK)),
        _unknown_seconds(timeline, nvlinks),
        before,
    )


def _unknown_seconds(timeline: Timeline, directions: Sequence[DirectionSummary]) -> float | None:
    counted = [w.rates.known_seconds for w in directions if w.told == "counters" and w.rates]
    return max(timeline.seconds - min(counted), 0.0) if counted else None


def _before_seconds(timeline: Timeline, chosen: Sequence[Counters]) -> float | None:
    begins = [int(counters.end_ns[0]) for counters in chosen if len(counters)]
    return max((max(begins) - timeline.start_ns) * 1e-9, 0.0) if begins else None


def _notes(
    timeline: Timeline,
    directions: Sequence[DirectionSummary],
    nvlinks: Sequence[DirectionSummary],
) -> tuple[str, ...]:
    notes = [*timeline.damage]
    notes += [impossible_note(timeline.impossible)] if timeline.impossible else []
    if note := no_room_note(timeline.processes):
        notes.append(note)
    if any(p.has_call_times and p.traced_until_ns is None for p in timeline.processes):
        notes.append(
            "Copies were recorded as the program called for them; how long the GPU took for each "
            "is not known. --trace always traces that, by CUPTI, which slows down programs that "
            "launch much."
        )
    if (slow := sum(one.slow_bytes for one in directions)) > _LEAST_UNATTRIBUTED:
        notes.append(
            f"{binary_text(slow)} are not counted as payload: they crossed at less than 0.5 GB/s, "
            "and no recorded copy explains them. The GPU fetches 2 to 3 KB for each launch of a "
            "kernel; what kernels read of host memory so slowly is among them."
        )
    notes += pcie_notes(directions)
    notes += _missing_traces(timeline, sum(one.untraced_bytes or 0.0 for one in directions))
    rest = sum(direction.unattributed_bytes or 0.0 for direction in directions)
    if rest:
        size = binary_text(rest)
        split = split_text(
            [direction.unexplained for direction in directions if direction.unexplained]
        )
        when = f", {split}" if split else ""
        notes.append(f"{size} were counted that no traced copy explains{when}: {_CANDIDATES}.")
    pieces = timeline.operations.pieces()
    between = any(bool(np.any(piece.direction == DirectionCode.P2P)) for piece in pieces)
    if between and not nvlinks:
        notes.append(
            "Copies between GPUs cross the links above only where no NVLink joins the GPUs."
        )
    if not _traced(timeline) and timeline.counters:
        notes.append("No process was traced, so that nothing tells who moved the bytes.")
        for counters in timeline.over(PCIE):
            notes += burst_notes(counters) if counters.source in FINE else ()
    return tuple(notes)
