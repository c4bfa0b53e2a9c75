"""What a watch shows on a terminal: one screen of rates, copies, and who made them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.text import Text

from lanescope.report import format as fmt
from lanescope.report.managed_text import MANAGED, managed_rows
from lanescope.report.probed_text import PROBED, probed_rows
from lanescope.watch.align import Alignment
from lanescope.watch.attribution import WAYS_TO_ASK, CopyGroup
from lanescope.watch.findings import Finding
from lanescope.watch.nvlink import NVLINK_WAYS
from lanescope.watch.slowdown import Slowdown
from lanescope.watch.summary import Summary, WaySummary
from lanescope.watch.turn_times import FEWEST_FOR_INTERVAL, Turns
from lanescope.watch.windows import WindowStatistics, window_text

#: With these the first screen stays below 40 lines on a machine with two GPUs.
MOST_COPIES = 3
MOST_SHARES = 2
MOST_FINDINGS = 5
_MOST_WAYS = 8
_MOST_NAME = 60

#: Heads what crossed NVLink.
NVLINK = "Over NVLink, all links of a GPU together"
#: Told where there is nothing.
NOTHING = "Nothing was counted and no copy was traced."

Row = tuple[str, ...]


def summary_text(summary: Summary, findings: Sequence[Finding] = ()) -> Text:
    """Return the first screen of a watch."""
    blocks = [
        [f"Watched {fmt.seconds_text(summary.seconds)}. GB/s are 1e9 bytes of payload a second."],
        _ways(summary.ways),
        nvlink_lines(summary),
        [PROBED, *table_lines(probed_rows(summary.probed))] if summary.probed else [],
        _copies(summary),
        [MANAGED, *table_lines(managed_rows(summary.managed))] if summary.managed else [],
        _shares(summary),
        _findings(findings),
        _ends(summary),
    ]
    text = Text("\n\n".join("\n".join(block) for block in blocks if block))
    text.highlight_regex(
        r"(?m)^(Findings|Over NVLink|Largest and most|Traced bytes|Probed|Managed).*", "bold"
    )
    return text


def nvlink_lines(summary: Summary) -> list[str]:
    """Return what crossed NVLink; nothing where there is none."""
    ways = summary.nvlinks
    if ways and all(way.rates is not None and way.rates.payload_bytes == 0 for way in ways):
        return [f"{NVLINK}: nothing."]
    return [NVLINK, *_ways(ways)] if ways else []


def _ways(ways: Sequence[WaySummary]) -> list[str]:
    if not ways:
        return [NOTHING]
    lines = table_lines(way_table(ways[:_MOST_WAYS]))
    if len(ways) > _MOST_WAYS:
        lines.append(f"{fmt.count_text(len(ways) - _MOST_WAYS, 'more way')} in --json")
    return lines + way_notes(ways)


def way_table(ways: Sequence[WaySummary]) -> list[Row]:
    """Return a heading and a row for each way."""
    shown = _shown_windows(ways)
    columns = (f"{window_text(window)}: p50 p99 peak" for window in shown)
    head = ("way", "payload", "traced", "mean GB/s", "of link", "busy", *columns)
    return [head, *(_way_row(way, shown) for way in ways)]


def _shown_windows(ways: Sequence[WaySummary]) -> list[int]:
    """Lengths of the windows that have a column: of NVLink those that something is known of."""
    rates = [way.rates for way in ways if way.rates is not None]
    told = {w.window_ns: w.reason is None for r in rates for w in r.windows}
    told |= {w.window_ns: True for r in rates for w in r.windows if w.reason is None}
    nvlink = all(way.direction in NVLINK_WAYS for way in ways)
    return [window for window, known in told.items() if known or not nvlink]


def way_notes(ways: Sequence[WaySummary]) -> list[str]:
    """Return what the numbers of the ways mean, and where they are from; sentences."""
    lines = ["p50, p99 and peak in GB/s are of the windows with traffic."]
    rates = [way.rates for way in ways if way.rates is not None]
    shown = _shown_windows(ways)
    reasons = dict.fromkeys(
        f"{window_text(w.window_ns)}: {w.reason}"
        for r in rates
        for w in r.windows
        if w.reason and w.window_ns in shown
    )
    if reasons:
        lines.append("– " + "; ".join(reasons) + ".")
    limits = dict.fromkeys(
        f"{way.direction.replace('-', ' ')} {fmt.gbs_text(way.limit.gbs)} GB/s, {way.limit.source}"
        for way in ways
        if way.limit.gbs is not None
    )
    unknown = dict.fromkeys(way.limit.source for way in ways if way.limit.gbs is None)
    lines.append("Link: " + "; ".join([*limits, *unknown]) + ".")
    lines.append("From " + "; ".join(dict.fromkeys(way.source for way in ways)) + ".")
    return lines


def _way_row(way: WaySummary, shown: Sequence[int]) -> Row:
    rates = way.rates
    cells = (
        way.label.replace(".", " ").replace("-", " "),
        fmt.sum_text(_whole(rates.payload_bytes if rates else None)),
        fmt.sum_text(_whole(way.traced_bytes)),
        fmt.gbs_text(rates.mean_gbs if rates else None),
        fmt.percent_text(way.share_of_limit),
        fmt.percent_text(rates.busy_share if rates else None),
    )
    windows = rates.windows if rates else ()
    return cells + tuple(_window_cell(w) for w in windows if w.window_ns in shown)


def _window_cell(window: WindowStatistics) -> str:
    rates = (window.p50_gbs, window.p99_gbs, window.peak_gbs)
    if window.peak_gbs is None:
        return fmt.MISSING if window.reason else "idle"
    return " ".join(fmt.gbs_text(gbs) for gbs in rates)


def _copies(summary: Summary) -> list[str]:
    if not summary.copies:
        return []
    return ["Largest and most frequent copies", *table_lines(copy_table(summary, MOST_COPIES))]


def copy_table(summary: Summary, most: int) -> list[Row]:
    """Return a heading and a row for each of the largest and of the most frequent copies."""
    largest = summary.copies[:most]
    frequent = [g for g in summary.most_frequent(most) if g not in largest]
    head = ("copies", "of", "direction", "host memory", "call", "in sum", "GPU time", "GB/s")
    return [head, *(_copy_row(group) for group in (*largest, *frequent))]


def _copy_row(group: CopyGroup) -> Row:
    return (
        str(group.count),
        fmt.bytes_text(group.bytes),
        group.direction,
        group.memory or fmt.MISSING,
        "asynchronous" if group.asynchronous else "synchronous",
        fmt.sum_text(group.total_bytes),
        fmt.seconds_text(group.seconds),
        fmt.gbs_text(group.gbs),
    )


def _shares(summary: Summary) -> list[str]:
    lines = share_lines(summary, MOST_SHARES)
    return ["Traced bytes", *(f"- {line}" for line in lines)] if lines else []


def share_lines(summary: Summary, most: int) -> list[str]:
    """Return who moved the traced bytes: by process, stream, thread, range, and path."""
    lines = []
    for by in WAYS_TO_ASK:
        found = summary.shares_by(by)
        if not found:
            continue
        told = [
            f"{_cut(share.name)} {fmt.percent_text(share.share)} "
            f"({fmt.sum_text(share.total_bytes)})"
            for share in found[:most]
        ]
        more = f"; {len(found) - most} more" if len(found) > most else ""
        lines.append(f"by {by}: {'; '.join(told)}{more}")
    return lines


def _findings(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return []
    lines = ["Findings", *(f"- {finding_text(one)}" for one in findings[:MOST_FINDINGS])]
    if len(findings) > MOST_FINDINGS:
        more = fmt.count_text(len(findings) - MOST_FINDINGS, "more finding")
        lines.append(f"{more} in --json")
    return lines


def finding_text(finding: Finding) -> str:
    """Return a finding with what it would bring."""
    if finding.gain_seconds is None:
        return finding.sentence
    return f"{finding.sentence} Predicted gain: at most {fmt.seconds_text(finding.gain_seconds)}."


def _ends(summary: Summary) -> list[str]:
    return [*(f"- {note}" for note in summary.notes), *end_lines(summary)]


def _aligned(found: Alignment) -> str:
    told = [f"p99 of {found.copies} copies"]
    for one in found.delays:
        begin, end = (
            f"{fmt.seconds_text(abs(ns) * 1e-9)} {'after' if ns >= 0 else 'before'}"
            for ns in (one.begin_ns, one.end_ns)
        )
        told.append(f"{one.direction} bursts begin {begin} a copy begins and end {end} it ends")
    return f"{fmt.seconds_text(found.residual_p99_ns * 1e-9)} ({'; '.join(told)})"


def turns_text(turns: Turns) -> str:
    """Return what watching cost the program, as a sentence."""
    median, low, high = (f"{100 * share:+.2f} %" for share in turns.slowdown)
    sure = "95 % interval" if len(turns.plain) >= FEWEST_FOR_INTERVAL else "range"
    count = fmt.count_text(len(turns.plain), "turn")
    return (
        f"Slowdown by watching, measured: {median} ({sure} {low} to {high}) of the program's whole "
        f"time, {fmt.seconds_text(statistics.median(turns.plain))} unwatched; median of {count} "
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
    if summary.turns is not None:
        lines.append(turns_text(summary.turns))
    if summary.slowdown is not None:
        lines.append(slowdown_text(summary.slowdown))
    aligned = [f"g{gpu} {_aligned(a)}" for gpu, a in summary.alignments if a is not None]
    if aligned:
        lines.append(f"Counters and trace agree in time to: {', '.join(aligned)}.")
    return lines


def table_lines(rows: Sequence[Row]) -> list[str]:
    """Return rows as lines with aligned columns; numbers stand to the left as words do."""
    columns = max(len(row) for row in rows)
    widths = [max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(columns)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]


def _whole(count: float | None) -> float | None:
    return None if count is None else round(count)


def _seconds(seconds: float | None) -> str:
    return "0 s" if seconds == 0 else fmt.seconds_text(seconds)


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 1]}…"
