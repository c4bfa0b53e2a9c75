"""The report of a watch: its document, with the page, and its summary as plain values for JSON.

The document says what was found, has the timeline, and how it was watched. Units stand in the
names of JSON's values, None for what is unknown.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from lanescope.document.blocks import (
    Banner,
    Block,
    Bullets,
    Code,
    Column,
    Details,
    Document,
    Facts,
    Group,
    Headline,
    Kind,
    Section,
    Style,
    Table,
    TableCell,
    Text,
    Tone,
)
from lanescope.document.contents import Finding
from lanescope.findings.trace import Evaluation
from lanescope.report.document_page import document_page
from lanescope.report.format import finding_text, seconds_text, sum_text
from lanescope.report.timeline_html import timeline_of
from lanescope.store.folder import State, state_sentence
from lanescope.studies.watch_blocks import (
    NOTHING,
    PAGE,
    TERMINAL,
    direction_text,
    summary_sections,
)
from lanescope.trace.attribution import DIRECTIONS_TO_ASK
from lanescope.trace.probe import ProbedDirection, Sign
from lanescope.trace.run import SourceRecord, WatchManifest, WatchRun, WatchTurns
from lanescope.trace.summary import DirectionSummary, Summary
from lanescope.trace.timeline import CALL_TIMES, GPU_CLOCK, Process

#: A longer command line stands below the heading only.
_LONGEST_HEADING = 60
_SIGNALLED = 128
_NO_SOURCE = "No counters work here; 'lanescope doctor' says why, and what to do."
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
_DEFINITIONS = Details([Facts(_WORDS)], "Wire, mean and peak, hatched, GB/s, time")
#: Of the values below; it changes when a key changes its meaning or goes.
_SUMMARY_VERSION = 1
_MOST_GROUPS = 100
_MOST_EPISODES = 100


def watch_page_html(run: WatchRun, evaluation: Evaluation, *, static: bool = False) -> str:
    """Return the report of a watch as one self-contained HTML page; see `document_page`."""
    return document_page(_watch_document(run, evaluation), static=static)


def watch_terminal(run: WatchRun, evaluation: Evaluation) -> list[Block]:
    """Return what a terminal shows of a watch: its summary, its notes, and what watched."""
    sources = run.manifest.sources
    unfinished = state_sentence(run.manifest.state)
    lines = [source.sentence for source in sources]
    # of one that did not finish they are not known, nor of one without an end
    if not (sources or unfinished or run.timeline.counters):
        lines = [_NO_SOURCE]
    return [
        *([Text(unfinished, Style.STRONG)] if unfinished else []),
        *summary_sections(evaluation.summary, evaluation.findings, TERMINAL),
        Bullets([*run.manifest.notes, *lines]),
    ]


def _watch_document(run: WatchRun, evaluation: Evaluation) -> Document:
    """Return all that is known of a watch: what it comes to first, how it was watched last."""
    manifest = run.manifest
    summary, findings, losses = summary_sections(evaluation.summary, evaluation.findings, PAGE)
    timeline = timeline_of(run)
    sections = (
        findings,
        summary,
        Section("timeline", "Timeline", [timeline or Text(_nothing(manifest))]),
        Section("processes", "Processes", _processes(run)),
        losses,
        Section("sources", "How it was watched", _sources(manifest.sources)),
        Section("definitions", "What the timeline shows", (_DEFINITIONS,) if timeline else ()),
    )
    program = shlex.join(manifest.program)
    repeated = program == _heading(manifest)
    return Document(
        title=f"lanescope watch: {_heading(manifest)}",
        heading=f"Watch of {_heading(manifest)}",
        started=manifest.started,
        facts=_facts(run),
        commands=[line for line in ("" if repeated else program, manifest.command) if line],
        headline=_headline(manifest, evaluation),
        sections=sections,
        tool_version=manifest.tool_version,
        banners=[Banner(words)] if (words := state_sentence(manifest.state)) else (),
    )


def _facts(run: WatchRun) -> tuple[str, ...]:
    manifest = run.manifest
    end_ns = run.timeline.end_ns if manifest.end_ns is None else manifest.end_ns
    lasted = seconds_text(max(0, end_ns - manifest.start_ns) * 1e-9)
    version = f"lanescope {manifest.tool_version}"
    return (f"lasted {lasted}", _exit(manifest), manifest.machine.name, version)


def _headline(manifest: WatchManifest, evaluation: Evaluation) -> Headline:
    """What would gain most; where nothing is found, what moved."""
    notes = Bullets([f"Note: {note}" for note in manifest.notes])
    if evaluation.findings:
        return Headline(finding_text(evaluation.findings[0]), Tone.OPEN, [notes])
    moved = [
        f"{direction_text(one)} {sum_text(round(one.rates.payload_bytes))}"
        for one in (*evaluation.summary.directions, *evaluation.summary.nvlinks)
        if one.rates is not None and one.rates.payload_bytes
    ]
    words = f"Moved: {', '.join(moved)}." if moved else NOTHING
    return Headline(words, Tone.QUIET, [notes])


def _heading(manifest: WatchManifest) -> str:
    if not manifest.program:
        return manifest.machine.name
    whole = shlex.join(manifest.program)
    return whole if len(whole) <= _LONGEST_HEADING else PurePath(manifest.program[0]).name


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


def _nothing(manifest: WatchManifest) -> str:
    used = [source.name for source in manifest.sources if source.used]
    why = f"{', '.join(used)} saw nothing" if used else "no source could watch"
    return f"There is nothing to show: {why}."


def _sources(sources: Sequence[SourceRecord]) -> list[Block]:
    if not sources:
        return []
    columns = (
        Column("Source"),
        Column("State"),
        Column("Samples", Kind.COUNT, "Of counters"),
        Column("Lost", Kind.COUNT, "Samples that the source knows to have lost"),
        Column("CPU, s", Kind.FIGURES, "Processor time that it took beside the program"),
    )
    return [Table("What watched", columns, [Group([_source(one) for one in sources])])]


def _source(one: SourceRecord) -> list[TableCell | str | None]:
    state = "used" if one.used else "not used"
    words = f"{state}: {one.reason}" if one.reason else state
    remedy = (f"→ {one.remedy}",) if one.remedy else ()
    return [
        one.name,
        TableCell(words, tone=Tone.OPEN if one.used and one.reason else None, below=remedy),
        _count(one.samples),
        TableCell(_count(one.lost_samples), tone=Tone.OPEN if one.lost_samples else None),
        None if one.cpu_seconds is None else f"{one.cpu_seconds:.3g}",
    ]


def _processes(run: WatchRun) -> list[Block]:
    if not run.timeline.processes:
        return []
    columns = (
        Column("Process", Kind.COUNT),
        Column("Command"),
        Column("Began after", Kind.SECONDS),
        Column("Lasted", Kind.SECONDS),
        Column("Trace"),
    )
    rows = [_process(one, run.timeline.start_ns) for one in run.timeline.processes]
    return [Table("Processes that were traced", columns, [Group(rows)])]


def _process(one: Process, start_ns: int) -> list[TableCell | Code | str | float | None]:
    began = (one.start_ns - start_ns) * 1e-9
    trace = "complete" if one.complete else "cut off"
    if one.lost_records:
        trace += f", {one.lost_records:,} records lost"
    whole = one.complete and not one.lost_records
    return [
        one.pid,
        Code(one.command),
        began if began > 0 else "0 s",
        None if one.end_ns is None else (one.end_ns - one.start_ns) * 1e-9,
        TableCell(trace, tone=None if whole else Tone.OPEN),
    ]


def _count(count: int | None) -> str | None:
    return None if count is None else f"{count:,}"


def summary_json(
    summary: Summary, findings: Sequence[Finding] = (), state: State = State.COMPLETE
) -> dict[str, Any]:
    """Return a summary and its findings as dicts, lists, numbers and text.

    Parameters
    ----------
    state
        How far the watch came.
    """
    return {
        "version": _SUMMARY_VERSION,
        "state": state,
        "seconds": summary.seconds,
        "ways": [_direction(one) for one in summary.directions],
        "nvlinks": [_direction(one) for one in summary.nvlinks],
        "link_errors": [asdict(errors) for errors in summary.link_errors],
        "copies": [asdict(group) for group in summary.copies[:_MOST_GROUPS]],
        "python_lines": [asdict(one) for one in summary.by_line[:_MOST_GROUPS]],
        "python_lines_seconds": summary.line_seconds,
        "most_frequent_copies": [asdict(group) for group in summary.most_frequent(_MOST_GROUPS)],
        "shares": {
            by: [_without(asdict(s), "by") for s in summary.shares_by(by)[:_MOST_GROUPS]]
            for by in DIRECTIONS_TO_ASK
        },
        "losses": {**asdict(summary.losses), "cut_processes": list(summary.losses.cut_processes)},
        "costs": [asdict(cost) for cost in summary.costs],
        "alignments": [
            {"gpu": gpu, **({} if found is None else asdict(found)), "known": found is not None}
            for gpu, found in summary.alignments
        ],
        "in_copies": [asdict(one) for one in summary.in_copies],
        "gpu_times": [asdict(one) for one in summary.gpu_times],
        "copies_timed_by": CALL_TIMES if summary.by_call_times else GPU_CLOCK,
        "managed": [asdict(one) for one in summary.managed],
        "slowdown": None if summary.slowdown is None else asdict(summary.slowdown),
        "turns": None if summary.turns is None else turns_json(summary.turns),
        "boost": None if summary.boost is None else asdict(summary.boost),
        "probed": [_probed(one) for one in summary.probed],
        "notes": list(summary.notes),
        "findings": [_finding(finding) for finding in findings],
    }


def _direction(one: DirectionSummary) -> dict[str, Any]:
    rates = None if one.rates is None else asdict(one.rates)
    if rates is not None:
        rates["windows"] = list(rates["windows"])
    return {
        "gpu": one.gpu,
        "direction": one.direction,
        "told": one.told,
        "source": one.source,
        "counter_bytes": one.counter_bytes,
        "traced_bytes": one.traced_bytes,
        "unattributed_bytes": one.unattributed_bytes,
        "unexplained": None if one.unexplained is None else asdict(one.unexplained),
        "slow_bytes": one.slow_bytes,
        "untraced_bytes": one.untraced_bytes,
        "crossed_bytes": one.crossed_bytes,
        "limit_gbs": one.limit.gbs,
        "limit_source": one.limit.source,
        "share_of_limit": one.share_of_limit,
        "rates": rates,
    }


def _finding(found: Finding) -> dict[str, Any]:
    gain = found.gain_seconds
    return {
        "kind": found.kind,
        "sentence": found.sentence,
        "basis": found.basis,
        "preconditions": list(found.conditions),
        "evidence": list(found.evidence),
        "predicted_gain_seconds": None if gain is None else gain.high,
        "remedy": found.remedy,
        "code": [asdict(one) for one in found.code],
        "confirm": found.confirm,
    }


def turns_json(turns: WatchTurns) -> dict[str, Any]:
    """Return measured slowdowns: seconds of each turn, and shares."""
    median, low, high = turns.slowdown
    return {**asdict(turns), "median_share": median, "low_share": low, "high_share": high}


def _without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in values.items() if k != key}


def _probed(one: ProbedDirection) -> dict[str, Any]:
    """A direction that was probed; of very many episodes the longest."""
    longest = sorted(one.episodes, key=lambda e: e.start_ns - e.end_ns)[:_MOST_EPISODES]
    values = {
        "link_used_episodes": one.count_of(Sign.LINK),
        "link_used_seconds": one.seconds_of(Sign.LINK),
        "delay_raised_episodes": one.count_of(Sign.DELAY),
        "delay_raised_seconds": one.seconds_of(Sign.DELAY),
    }
    episodes = [{**asdict(episode), "sign": episode.sign.value} for episode in longest]
    return {**asdict(one), **values, "episodes": episodes}
