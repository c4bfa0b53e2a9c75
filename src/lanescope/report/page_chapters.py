"""The page of a reproduction: chapters 4 and 5 of the thesis, and its outlook, on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.document.chart import AnyChart
from lanescope.report.chapters_charts import probe_charts, source_charts
from lanescope.report.chapters_tables import link_table, overview_table, source_table, step_table
from lanescope.report.format import count_text
from lanescope.report.html import definitions, items, section, text
from lanescope.report.page_frame import alert, facts_line, page_footer, page_frame, time_element
from lanescope.report.page_plots import InteractivePlots
from lanescope.run.folder import state_sentence
from lanescope.watch.chapters.told import ProgramTold, Told

_WORDS = (
    (
        "Differs",
        "Told bytes over what the program itself says to have moved, less 1: the middle of the "
        "repetitions, and their range. Counters are taken in the steps that copy 1 MiB or more "
        "and two records around them, and their wire bytes become payload by the default model, "
        "which knows nothing of the trace.",
    ),
    (
        "All sources",
        "pm, counters, throughput and trace watch the same run of the program, on one clock. What "
        "they cause on the link by watching is taken off each other where it is known.",
    ),
    (
        "Probe",
        "Its own copies fill the link, one after the other, so that it has a run of its own. Lines "
        "are medians, bands the 5th to 95th percentile.",
    ),
    (
        "Cost",
        "The program's time from its first step to its last, over that of the unwatched run in "
        "the same repetition, less 1; ways of running take turns.",
    ),
    ("GB/s", "1e9 bytes of payload a second. Times are from begin to end by the host's clock."),
)


def chapters_page_html(told: Told) -> str:
    """Return a reproduction as one self-contained HTML page."""
    page = _Page()
    thesis = [one for one in told.programs if one.program.part != "outlook"]
    outlook = [one for one in told.programs if one.program.part == "outlook"]
    body = (
        section("overview", "Every program", overview_table(told) if told.programs else ""),
        page.sources("chapter-4", "Chapter 4: counters and trace", thesis),
        section("link", "The idle link", link_table(told)),
        page.probes("chapter-5", "Chapter 5: a probe that fills the link", thesis),
        page.both("outlook", "Outlook: concurrent copies, and load with copies", outlook),
        section("turns", "What was run", _turns(told)),
        section("definitions", "What the numbers mean", definitions(_WORDS)),
    )
    shown = f"{_header(told)}<main>{''.join(body)}</main>"
    footer = page_footer(told.reproduction.asked.tool_version)
    scripts = page.plots.script()
    return page_frame("lanescope reproduce pcie-thesis", f"{shown}{footer}{scripts}")


class _Page:
    """Sections, and the charts that they show, numbered through the page."""

    def __init__(self) -> None:
        self.plots = InteractivePlots()

    def sources(self, identifier: str, title: str, programs: Sequence[ProgramTold]) -> str:
        parts = [self._sources(one, folded=not _is_open(one, programs)) for one in programs]
        return section(identifier, title, *parts)

    def probes(self, identifier: str, title: str, programs: Sequence[ProgramTold]) -> str:
        parts = [self._probe(one, folded=not _is_open(one, programs)) for one in programs]
        return section(identifier, title, *parts)

    def both(self, identifier: str, title: str, programs: Sequence[ProgramTold]) -> str:
        parts = []
        for one in programs:
            parts += [self._sources(one), self._probe(one, headed=False)]
            parts.append(items(one.sentences.program) if one.sentences.program else "")
        return section(identifier, title, *parts)

    def _sources(self, one: ProgramTold, *, folded: bool = False) -> str:
        if not one.sources:
            return ""
        words = items(one.sentences.sources)
        return f"{_heading(one)}{source_table(one)}{words}{self._plots(source_charts(one), folded)}"

    def _probe(self, one: ProgramTold, *, folded: bool = False, headed: bool = True) -> str:
        words = items(one.sentences.probe) if one.sentences.probe else ""
        heading = _heading(one) if headed else ""
        return f"{heading}{step_table(one)}{words}{self._plots(probe_charts(one), folded)}"

    def _plots(self, charts: Sequence[AnyChart], folded: bool) -> str:
        shown = "".join(map(self.plots.draw, charts))
        if not folded or not charts:
            return shown
        return f"<details><summary>{count_text(len(charts), 'chart')}</summary>{shown}</details>"


def _is_open(one: ProgramTold, programs: Sequence[ProgramTold]) -> bool:
    """Whether its charts are shown at once: of one program with many sizes the largest are."""
    name = one.program.arguments[0]
    same = [p for p in programs if p.program.arguments[0] == name]
    return one is max(same, key=lambda p: sum(p.truth_bytes))


def _heading(one: ProgramTold) -> str:
    return f"<h3>{text(one.program.title)}</h3>"


def _header(told: Told) -> str:
    asked = told.reproduction.asked
    gpu = next(gpu for gpu in asked.machine.gpus if gpu.index == asked.gpu)
    facts = facts_line(
        time_element(asked.started),
        text(f"{gpu.id}, {gpu.name}"),
        text(asked.machine.name),
        text(count_text(asked.repetitions, "repetition")),
        f"lanescope {text(asked.tool_version)}",
    )
    notes = items(f"Note: {note}" for note in asked.notes)
    noted = f'<div class="conclusion open">{notes}</div>' if asked.notes else ""
    return (
        "<header><h1>Data movements over the PCIe bus, watched on this machine</h1>"
        "<p>After Qi, <cite>Analysis of data movements over the PCIe bus</cite>, 2022: chapters 4 "
        "and 5, and the outlook of 7.4.</p>"
        f'<p class="facts">{facts}<br><code>{text(asked.command)}</code></p>'
        f"{alert(state_sentence(asked.state))}{noted}</header>"
    )


def _turns(told: Told) -> str:
    found = told.reproduction
    done = count_text(len(found.done), "run")
    return (
        f"<p>{text(done)} of {told.planned} are here. Each watched one is a run folder of its own "
        "below the reproduction's: <code>lanescope report FOLDER/PROGRAM/sources-1</code> writes "
        "its page. All numbers of this page, with unit, method and spread, are in "
        "<code>chapters.json</code>.</p>"
    )
