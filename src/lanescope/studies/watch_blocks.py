"""What a watch comes to, as blocks: rates, copies, who made them, what could be faster."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lanescope.document.blocks import (
    Block,
    Bullets,
    Column,
    ColumnOf,
    Findings,
    Group,
    Kind,
    Section,
    Style,
    Table,
    TableCell,
    Text,
)
from lanescope.document.contents import Finding
from lanescope.report import format as fmt
from lanescope.trace.attribution import DIRECTIONS_TO_ASK, CopyGroup, LineCopies
from lanescope.trace.busy import GpuTime, InCopies
from lanescope.trace.limits import NVLINK_DIRECTIONS
from lanescope.trace.probe import ProbedDirection, Sign
from lanescope.trace.run import FEWEST_FOR_INTERVAL, Slowdown, WatchTurns
from lanescope.trace.summary import DirectionSummary, ManagedDirection, Summary
from lanescope.trace.windows import WindowStatistics, window_text
from lanescope.trace.wire_fit import Alignment
from lanescope.units.words import shortened

_MOST_NAME = 60
#: Less of the watch in calls that copy is not what makes a program slow.
_LEAST_SHARE = 0.01
#: Titles of tables.
RATES = "Rates by GPU and direction"
NVLINK = "Over NVLink, all links of a GPU together"
PROBED = "Probed by copies of our own"
COPIES = "Largest and most frequent copies"
LINES = "Copies by Python line"
MANAGED = "Managed memory"
#: Where there is nothing.
NOTHING = "Nothing was counted and no copy was traced."
#: Seconds until the first sample that are told.
_LONG_START = 0.1


@dataclass(frozen=True, slots=True)
class Most:
    """How much of a summary is shown: of groups of copies, of shares by each, and the others."""

    copies: int
    lines: int
    shares: int
    findings: int
    directions: int


#: With these a terminal shows less than 40 lines on a machine with two GPUs.
TERMINAL = Most(copies=3, lines=5, shares=2, findings=5, directions=8)
PAGE = Most(copies=20, lines=50, shares=10, findings=1000, directions=1000)


def summary_sections(
    summary: Summary, findings: Sequence[Finding] = (), most: Most = TERMINAL
) -> list[Section]:
    """Return a watch's findings, what moved, and what the numbers do not say."""
    tables: list[Block] = []
    if summary.probed:
        tables.append(probed_table(summary.probed))
    if summary.copies:
        tables.append(_copy_table(summary, most.copies))
    if summary.by_line:
        tables.append(_line_table(summary, most.lines))
    if summary.managed:
        tables.append(_managed_table(summary.managed))
    if lines := _share_lines(summary, most.shares):
        tables += [Text("Traced bytes", Style.STRONG), Bullets(lines)]
    watched = (
        f"Watched {fmt.seconds_text(summary.seconds)}. GB/s are 1e9 bytes of payload a second."
    )
    moved = [
        _direction_table(RATES, summary.directions, most.directions)
        if summary.directions
        else Text(NOTHING),
        *_nvlink(summary, most.directions),
        *tables,
    ]
    ends = Bullets([*summary.notes, *end_lines(summary)], Style.QUIET)
    return [
        Section("summary", "What moved", [Text(watched), *_in_words(summary), *moved]),
        Section("findings", "Findings", _findings(findings, most)),
        Section("losses", "What the numbers do not say", [ends]),
    ]


def _in_words(summary: Summary) -> list[Block]:
    """Return what processes and GPUs spent their time with, a line each; none where unknown."""
    lines = [_gpu_words(one) for one in summary.gpu_times if one.seconds > 0]
    lines += [_process_words(one) for one in summary.in_copies if one.share >= _LEAST_SHARE]
    return [Bullets(lines)] if lines else []


def _process_words(one: InCopies) -> str:
    name = shortened(f"{one.pid} {one.command}".rstrip(), _MOST_NAME)
    first, *others = one.paths
    share, longest = fmt.percent_text(one.share), fmt.seconds_text(first.seconds)
    memory = f" of {first.memory} memory" if first.memory else ""
    copies = fmt.count_text(first.count, f"{first.direction} copy", f"{first.direction} copies")
    return (
        f"Process {name}: its busiest thread was {share} of the watch in calls that copy, "
        f"{'most of it ' if others else ''}in {copies}{memory} ({longest}, "
        f"{fmt.sum_text(first.total_bytes)})."
    )


def _gpu_words(one: GpuTime) -> str:
    waited, computed, idle = (
        fmt.percent_text(part / one.seconds)
        for part in (one.only_copying, one.computing, max(one.seconds - one.either, 0.0))
    )
    return (
        f"g{one.gpu} waited for copies {waited} of its time: it computed {computed} of the "
        f"{fmt.seconds_text(one.seconds)} from its first to its last operation, and was idle "
        f"{idle}."
    )


def _nvlink(summary: Summary, most: int) -> list[Block]:
    directions = summary.nvlinks
    if directions and all(
        one.rates is not None and one.rates.payload_bytes == 0 for one in directions
    ):
        return [Text(f"{NVLINK}: nothing.")]
    return [_direction_table(NVLINK, directions, most)] if directions else []


def _direction_table(title: str, directions: Sequence[DirectionSummary], most: int) -> Table:
    """A row for each direction, and what the numbers mean below."""
    shown = _shown_windows(directions)
    columns = (
        Column("direction"),
        Column("payload", Kind.SUM),
        Column("traced", Kind.SUM),
        Column("mean GB/s", Kind.GBS),
        Column("of link", Kind.SHARE),
        Column("busy", Kind.SHARE),
        *(Column(f"{window_text(window)}: p50 p99 peak", Kind.FIGURES) for window in shown),
    )
    notes = _direction_notes(directions)
    if len(directions) > most:
        notes.insert(0, f"{fmt.count_text(len(directions) - most, 'more direction')} in --json")
    return Table(
        title, columns, [Group([_direction_row(w, shown) for w in directions[:most]])], tuple(notes)
    )


def _shown_windows(directions: Sequence[DirectionSummary]) -> list[int]:
    """Lengths of the windows that have a column: of NVLink those that something is known of."""
    rates = [one.rates for one in directions if one.rates is not None]
    has_numbers = {w.window_ns: w.reason is None for r in rates for w in r.windows}
    has_numbers |= {w.window_ns: True for r in rates for w in r.windows if w.reason is None}
    nvlink = all(one.direction in NVLINK_DIRECTIONS for one in directions)
    return [window for window, known in has_numbers.items() if known or not nvlink]


def _direction_notes(directions: Sequence[DirectionSummary]) -> list[str]:
    """Return what the numbers of the ways mean, and where they are from; sentences."""
    lines = ["p50, p99 and peak in GB/s are of the windows with traffic."]
    rates = [one.rates for one in directions if one.rates is not None]
    shown = _shown_windows(directions)
    reasons = dict.fromkeys(
        f"{window_text(w.window_ns)}: {w.reason}"
        for r in rates
        for w in r.windows
        if w.reason and w.window_ns in shown
    )
    if reasons:
        lines.append("– " + "; ".join(reasons) + ".")
    limits = dict.fromkeys(
        f"{one.direction.replace('-', ' ')} {fmt.gbs_text(one.limit.gbs)} GB/s, {one.limit.source}"
        for one in directions
        if one.limit.gbs is not None
    )
    unknown = dict.fromkeys(one.limit.source for one in directions if one.limit.gbs is None)
    lines.append("Link: " + "; ".join([*limits, *unknown]) + ".")
    lines.append("From " + "; ".join(dict.fromkeys(one.source for one in directions)) + ".")
    return lines


def direction_text(one: DirectionSummary) -> str:
    """Return a direction of a link in words, such as ``g0 nvlink rx``."""
    return one.label.replace(".", " ").replace("-", " ")


def _direction_row(one: DirectionSummary, shown: Sequence[int]) -> list[str | float | None]:
    rates = one.rates
    known = {w.window_ns: w for w in (rates.windows if rates else ())}
    return [
        direction_text(one),
        _whole(rates.payload_bytes if rates else None),
        _whole(one.traced_bytes),
        rates.mean_gbs if rates else None,
        one.share_of_limit,
        rates.busy_share if rates else None,
        *(_window_cell(known[window]) if window in known else "" for window in shown),
    ]


def _window_cell(window: WindowStatistics) -> str:
    rates = (window.p50_gbs, window.p99_gbs, window.peak_gbs)
    if window.peak_gbs is None:
        return fmt.MISSING if window.reason else "idle"
    return " ".join(fmt.gbs_text(gbs) for gbs in rates)


def _copy_table(summary: Summary, most: int) -> Table:
    """A row for each of the largest and of the most frequent groups of like copies."""
    largest = summary.copies[:most]
    frequent = [g for g in summary.most_frequent(most) if g not in largest]
    columns: list[ColumnOf[CopyGroup]] = [
        ColumnOf("copies", lambda one: one.count, Kind.COUNT),
        ColumnOf("of", lambda one: one.bytes, Kind.BYTES),
        ColumnOf("direction", lambda one: one.direction),
        ColumnOf("host memory", lambda one: one.memory or None),
        ColumnOf("call", lambda one: "asynchronous" if one.asynchronous else "synchronous"),
        ColumnOf("in sum", lambda one: one.total_bytes, Kind.SUM),
        ColumnOf("in calls" if summary.by_call_times else "GPU time", _seconds_of, Kind.SECONDS),
        ColumnOf("GB/s", lambda one: one.gbs, Kind.GBS),
    ]
    return Table.of(COPIES, columns, (*largest, *frequent))


def _seconds_of(one: CopyGroup | LineCopies) -> float | None:
    return one.seconds or None  # not known of calls that do not wait


def _line_table(summary: Summary, most: int) -> Table:
    """A row for each line, what called it, direction and kind of memory; the most bytes first."""
    columns: list[ColumnOf[LineCopies]] = [
        ColumnOf("line", _line),
        ColumnOf("called by", lambda one: None if one.caller is None else one.caller.text),
        ColumnOf("direction", lambda one: one.direction),
        ColumnOf("host memory", lambda one: one.memory),
        ColumnOf("copies", lambda one: one.count, Kind.COUNT),
        ColumnOf("in sum", lambda one: one.total_bytes, Kind.SUM),
        ColumnOf("in calls", _seconds_of, Kind.SECONDS),
    ]
    left = len(summary.by_line) - most
    notes = (f"{fmt.count_text(left, 'more line')} in --json",) if left > 0 else ()
    return Table.of(LINES, columns, summary.by_line[:most], notes)


def _line(one: LineCopies) -> TableCell | str | None:
    if one.line is None:
        return one.why
    through = () if one.innermost is None else (f"through {one.innermost.text}",)
    return TableCell(one.line.text, hint=one.line.file, below=through)


def probed_table(directions: Sequence[ProbedDirection]) -> Table:
    """Return a row for each direction that was probed."""
    columns: list[ColumnOf[ProbedDirection]] = [
        ColumnOf("direction", lambda one: f"g{one.gpu} {one.direction}"),
        ColumnOf("copies", lambda one: one.records, Kind.COUNT),
        ColumnOf("of", lambda one: one.chunk_bytes, Kind.BYTES),
        ColumnOf("free GB/s", lambda one: one.undisturbed_gbs, Kind.GBS),
        ColumnOf("free delay", lambda one: one.undisturbed_delay_seconds, Kind.SECONDS),
        ColumnOf("used by others", lambda one: one.used_by_others, Kind.SHARE),
        ColumnOf("held up", lambda one: _times(one, Sign.LINK), Kind.FIGURES),
        ColumnOf("delay raised", lambda one: _times(one, Sign.DELAY), Kind.FIGURES),
        ColumnOf("own share", lambda one: one.probe_busy_share, Kind.SHARE),
    ]
    return Table.of(PROBED, columns, directions)


def _times(one: ProbedDirection, sign: Sign) -> str:
    count = one.count_of(sign)
    return f"{count} × ({fmt.seconds_text(one.seconds_of(sign))})" if count else "never"


def _managed_table(directions: Sequence[ManagedDirection]) -> Table:
    """A row for each direction in which managed memory was migrated."""
    columns: list[ColumnOf[ManagedDirection]] = [
        ColumnOf("migrated", lambda one: f"g{one.gpu} {one.direction}"),
        ColumnOf("migrations", lambda one: one.count, Kind.COUNT),
        ColumnOf("in sum", lambda one: one.total_bytes, Kind.SUM),
        ColumnOf("mean size", lambda one: round(one.mean_bytes), Kind.BYTES),
        ColumnOf("GPU time", lambda one: one.seconds, Kind.SECONDS),
        ColumnOf("faults", _faults),
    ]
    return Table.of(MANAGED, columns, directions)


def _faults(one: ManagedDirection) -> str | None:
    by = "the GPU" if one.direction == "h2d" else "CPUs"
    return None if one.faults is None else f"{one.faults} of {by}"


def _share_lines(summary: Summary, most: int) -> list[str]:
    """Who moved the traced bytes: by process, stream, thread, range, and path."""
    lines = []
    for by in DIRECTIONS_TO_ASK:
        found = summary.shares_by(by)
        if not found:
            continue
        named = [
            f"{shortened(share.name, _MOST_NAME)} {fmt.percent_text(share.share)} "
            f"({fmt.sum_text(share.total_bytes)})"
            for share in found[:most]
        ]
        more = f"; {len(found) - most} more" if len(found) > most else ""
        lines.append(f"by {by}: {'; '.join(named)}{more}")
    return lines


def _findings(findings: Sequence[Finding], most: Most) -> list[Block]:
    if not findings:
        return []
    heading = [Text("Findings", Style.STRONG)] if most is TERMINAL else []
    blocks: list[Block] = [*heading, Findings(findings[: most.findings], brief=True)]
    if (left := len(findings) - most.findings) > 0:
        blocks.append(Text(f"{fmt.count_text(left, 'more finding')} in --json"))
    return blocks


def _aligned(found: Alignment) -> str:
    sentences = [f"p99 of {found.copies} copies"]
    for one in found.delays:
        begin, end = (
            f"{fmt.seconds_text(abs(ns) * 1e-9)} {'after' if ns >= 0 else 'before'}"
            for ns in (one.begin_ns, one.end_ns)
        )
        sentences.append(
            f"{one.direction} bursts begin {begin} a copy begins and end {end} it ends"
        )
    return f"{fmt.seconds_text(found.residual_p99_ns * 1e-9)} ({'; '.join(sentences)})"


def turns_text(turns: WatchTurns) -> str:
    """Return what watching cost the program, as a sentence."""
    unwatched = fmt.seconds_text(statistics.median(turns.plain))
    if len(turns.plain) == 1:
        watched = fmt.seconds_text(turns.watched[0])
        return (
            f"Whole time of the program: {unwatched} unwatched, {watched} watched; one turn of "
            "each does not tell what watching costs."
        )
    median, low, high = (f"{100 * share:+.2f} %" for share in turns.slowdown)
    sure = "95 % interval" if len(turns.plain) >= FEWEST_FOR_INTERVAL else "range"
    count = fmt.count_text(len(turns.plain), "turn")
    return (
        f"Slowdown by watching, measured: {median} ({sure} {low} to {high}) of the program's whole "
        f"time, {unwatched} unwatched; median of {count} "
        "with and without watching."
    )


def slowdown_text(slowdown: Slowdown) -> str:
    """Return what tracing may have cost the program, as a sentence."""
    traced = fmt.count_text(slowdown.copies, "copy", "copies")
    if slowdown.kernels:
        traced += f" and {fmt.count_text(slowdown.kernels, 'kernel')}"
    return (
        f"Slowdown by tracing, predicted: at most {fmt.percent_text(slowdown.share)} of the time "
        f"({_seconds(slowdown.seconds)} for {traced}, {slowdown.basis})."
    )


def end_lines(summary: Summary) -> list[str]:
    """Return what was lost, what watching cost, and how well clocks agree; sentences."""
    losses = summary.losses
    lines = []
    lost = f"{fmt.count_text(losses.samples, 'sample')}, "
    lost += f"{fmt.count_text(losses.records, 'trace record')}"
    if losses.unknown_seconds is not None:
        lost += f"; counters know nothing of {_seconds(losses.unknown_seconds)}"
        if (losses.before_seconds or 0.0) > _LONG_START:
            lost += f", {_seconds(losses.before_seconds)} of it before their first sample"
    if losses.cut_processes:
        cut = fmt.count_text(len(losses.cut_processes), "process", "processes")
        lost += f"; the trace of {cut} was cut off"
    if losses.unfinished:
        lost += f"; {fmt.count_text(losses.unfinished, 'operation')} had not ended with the process"
    if losses.nvlink_unknown_seconds is not None:
        lost += f"; of NVLink {fmt.count_text(losses.nvlink_samples, 'sample')}, "
        lost += f"nothing is known of {_seconds(losses.nvlink_unknown_seconds)}"
    lines.append(f"Lost: {lost}.")
    costs = [f"{c.source} {_seconds(c.cpu_seconds)}" for c in summary.costs]
    if costs:
        lines.append(f"Processor time of the sources: {', '.join(costs)}.")
    if summary.line_seconds is not None:
        lines.append(
            f"Reading Python's frames took {_seconds(summary.line_seconds)} of the program's "
            "threads, in sum."
        )
    if summary.turns is not None:
        lines.append(turns_text(summary.turns))
    if summary.boost is not None:
        lines.extend(f"Boost: {line}" for line in summary.boost.lines)
    if summary.slowdown is not None:
        lines.append(slowdown_text(summary.slowdown))
    aligned = [f"g{gpu} {_aligned(a)}" for gpu, a in summary.alignments if a is not None]
    if aligned:
        lines.append(f"Counters and trace agree in time to: {', '.join(aligned)}.")
    return lines


def _whole(count: float | None) -> float | None:
    return None if count is None else round(count)


def _seconds(seconds: float | None) -> str:
    return "0 s" if seconds == 0 else fmt.seconds_text(seconds)
