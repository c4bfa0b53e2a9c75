"""The page of a watch: what was watched, by what, and the timeline."""

from __future__ import annotations

import shlex
import signal
from pathlib import PurePath

from lanescope.report.format import MISSING, seconds_text
from lanescope.report.html import (
    Cell,
    Column,
    Group,
    Markup,
    definitions,
    items,
    section,
    table,
    text,
)
from lanescope.report.page_frame import alert, facts_line, page_footer, page_frame, time_element
from lanescope.report.timeline_html import timeline_html
from lanescope.run.folder import state_sentence
from lanescope.watch.run import SourceRecord, WatchManifest, WatchRun
from lanescope.watch.timeline import Process

#: A longer command line stands below the heading only.
_LONGEST_HEADING = 60
_SIGNALLED = 128
_WORDS: tuple[tuple[str, str], ...] = (
    (
        "Wire",
        "Rates are what counters saw on the link: payload, and the packets around it. Read "
        "requests and acknowledgements of copies one way show as a few percent the other way. Rows "
        "of NVLink are payload alone, over all links of a GPU together.",
    ),
    (
        "Mean and peak",
        "Where a pixel covers many records, the filled line is their mean and the paler area "
        "above it reaches to the fastest single record. Rates are kept to 0.05 %.",
    ),
    (
        "Hatched",
        "Nothing is known of that time: samples were lost, or counting had not begun. It is "
        "not zero. Where less than a pixel is missing, a short mark stands at the foot.",
    ),
    ("GB/s", "1e9 bytes a second. Sizes are binary: 1 MiB is 1,048,576 bytes."),
    (
        "Time",
        "From the start of the watch. Where many operations share a pixel, its strength tells "
        "how much of that time they took.",
    ),
)


def watch_page_html(run: WatchRun, summary_html: str = "") -> str:
    """Return the report of a watch as one self-contained HTML page.

    Parameters
    ----------
    summary_html
        What the watch found, as HTML that needs no escaping any more; stands above
        the timeline. Empty leaves the section out.
    """
    manifest = run.manifest
    shown = timeline_html(run)
    body = (
        section("summary", "Summary", summary_html),
        section("timeline", "Timeline", shown or _nothing(manifest)),
        section("sources", "Sources", _sources(manifest.sources)),
        section("processes", "Processes", _processes(run)),
        section("definitions", "What the timeline shows", definitions(_WORDS) if shown else ""),
    )
    return page_frame(
        f"lanescope watch: {_heading(manifest)}",
        f"{_header(run)}<main>{_notes(manifest)}{''.join(body)}</main>"
        f"{page_footer(manifest.tool_version)}",
        ("style.css", "timeline.css"),
    )


def _heading(manifest: WatchManifest) -> str:
    if not manifest.program:
        return manifest.machine.name
    whole = shlex.join(manifest.program)
    return whole if len(whole) <= _LONGEST_HEADING else PurePath(manifest.program[0]).name


def _header(run: WatchRun) -> str:
    manifest = run.manifest
    end_ns = run.timeline.end_ns if manifest.end_ns is None else manifest.end_ns
    lasted = seconds_text(max(0, end_ns - manifest.start_ns) * 1e-9)
    facts = facts_line(
        time_element(manifest.started),
        f"lasted {text(lasted)}",
        text(_exit(manifest)),
        text(manifest.machine.name),
        f"lanescope {text(manifest.tool_version)}",
    )
    program = shlex.join(manifest.program)
    lines = [manifest.command] if program == _heading(manifest) else [program, manifest.command]
    commands = "".join(f"<br><code>{text(line)}</code>" for line in lines if line)
    return (
        f"<header><h1>Watch of {text(_heading(manifest))}</h1>"
        f'<p class="facts">{facts}{commands}</p>'
        f"{alert(state_sentence(manifest.state))}</header>"
    )


def _exit(manifest: WatchManifest) -> str:
    code = manifest.exit_code
    if code is None:
        return "exit code not known" if manifest.program else "whole machine"
    if code <= _SIGNALLED:
        return f"exit code {code}"
    try:
        return f"exit code {code} ({signal.Signals(code - _SIGNALLED).name})"
    except ValueError:
        return f"exit code {code}"


def _notes(manifest: WatchManifest) -> str:
    if not manifest.notes:
        return ""
    notes = items(f"Note: {note}" for note in manifest.notes)
    return f'<div class="conclusion open">{notes}</div>'


def _nothing(manifest: WatchManifest) -> str:
    used = [source.name for source in manifest.sources if source.used]
    why = f"{', '.join(used)} saw nothing" if used else "no source could watch"
    return f"<p>There is nothing to show: {text(why)}.</p>"


def _sources(sources: tuple[SourceRecord, ...]) -> str:
    if not sources:
        return ""
    columns = (
        Column("Source"),
        Column("State"),
        Column("Samples", number=True, hint="Of counters"),
        Column("Lost", number=True, hint="Samples that the source knows to have lost"),
        Column("CPU, s", number=True, hint="Processor time that it took beside the program"),
    )
    return table(columns, [Group([_source(one) for one in sources])], "What watched")


def _source(one: SourceRecord) -> list[Cell]:
    lost = _count(one.lost_samples)
    return [
        one.name,
        _source_state(one),
        _count(one.samples),
        Markup(f'<span class="warn">{lost}</span>') if one.lost_samples else lost,
        MISSING if one.cpu_seconds is None else f"{one.cpu_seconds:.3g}",
    ]


def _source_state(one: SourceRecord) -> Cell:
    state = "used" if one.used else "not used"
    words = f"{state}: {text(one.reason)}" if one.reason else state
    if one.used and one.reason:
        words = f'<span class="warn">{words}</span>'
    remedy = f'<span class="remedy">→ {text(one.remedy)}</span>' if one.remedy else ""
    return Markup(words + remedy)


def _processes(run: WatchRun) -> str:
    if not run.timeline.processes:
        return ""
    columns = (
        Column("Process", number=True),
        Column("Command"),
        Column("Began after", number=True),
        Column("Lasted", number=True),
        Column("Trace"),
    )
    rows = [_process(one, run.timeline.start_ns) for one in run.timeline.processes]
    return table(columns, [Group(rows)], "Processes that were traced")


def _process(one: Process, start_ns: int) -> list[Cell]:
    began = (one.start_ns - start_ns) * 1e-9
    lasted = None if one.end_ns is None else (one.end_ns - one.start_ns) * 1e-9
    trace = "complete" if one.complete else "cut off"
    if one.lost_records:
        trace += f", {one.lost_records:,} records lost"
    whole = one.complete and not one.lost_records
    return [
        str(one.pid),
        Markup(f"<code>{text(one.command)}</code>"),
        seconds_text(began) if began > 0 else "0 s",
        seconds_text(lasted),
        trace if whole else Markup(f'<span class="warn">{text(trace)}</span>'),
    ]


def _count(count: int | None) -> str:
    return MISSING if count is None else f"{count:,}"
