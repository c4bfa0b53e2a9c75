"""The document of a run of copies, whose parts every report shows, its page, and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lanescope.calls import checked
from lanescope.document.blocks import (
    Badge,
    Banner,
    Block,
    Bullets,
    Code,
    Column,
    Details,
    Document,
    Download,
    Drawing,
    Facts,
    Findings,
    Group,
    Headline,
    Kind,
    Section,
    Table,
    TableCell,
    Text,
    Tone,
    Value,
    Words,
    charts_of,
)
from lanescope.document.contents import AnyChart
from lanescope.findings.machine import diagnose
from lanescope.kinds import StrPath
from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode
from lanescope.report.charts import chart_picture, write_charts
from lanescope.report.document_page import blocks_html, document_page
from lanescope.report.format import MISSING, bytes_text, count_text, gbs_text, seconds_text
from lanescope.report.html import text
from lanescope.report.topology_layout import trained_down_text
from lanescope.report.topology_svg import topology_svg
from lanescope.results import Result
from lanescope.store.folder import state_sentence
from lanescope.store.run import Run
from lanescope.studies import study_named
from lanescope.studies.runs.cases import case_blocks
from lanescope.studies.runs.charts import run_charts, sweep_series
from lanescope.studies.runs.export import run_csv
from lanescope.studies.runs.export import run_json as run_json
from lanescope.studies.runs.outcome import Word, headline_rows, outcome
from lanescope.studies.runs.rows import (
    PathRow,
    bandwidth_rows,
    path_rows,
    source_word,
    swept_results,
)
from lanescope.studies.runs.tables import (
    latency_rows,
    latency_table,
    open_points,
    paths_table,
    raw_table,
    sweep_table,
    total_sentences,
    unmeasured,
)
from lanescope.studies.taruc.document import taruc_findings, taruc_sections
from lanescope.studies.taruc.points import is_suite, plain_results

#: What every number on the page means.
DEFINITIONS: tuple[tuple[str, str], ...] = (
    ("GB/s", "1e9 bytes a second. Sizes are binary: 1 MiB is 1,048,576 bytes."),
    (
        "Counted bytes",
        "Payload only, never what the wire carries around it. A copy to, from or between GPUs "
        "counts its bytes once. Host threads count what they read and what they write: twice "
        "the array for a copy, three times for a triad.",
    ),
    ("Bandwidth", "Counted bytes over the median time of one repetition."),
    (
        "5th–95th percentile",
        "Bandwidth at the 95th and at the 5th percentile of the time: nine in ten repetitions "
        "lie between.",
    ),
    (
        "95 % half-width",
        "Half of the 95 % confidence interval of the median, as a share of it. It says how well "
        "the median is known, not how much single repetitions differ.",
    ),
    (
        "Limit",
        "The payload that the narrowest link on the way can carry when it is trained up fully, "
        "packet headers taken off; copies that run at once share it. It is a ceiling, not a goal: "
        "acknowledgements and flow control keep every real link a little below it.",
    ),
    ("% of limit", "Bandwidth over limit."),
    (
        "Delay",
        "The median time of the smallest copies. The fitted line is delay + bytes / plateau; its "
        "worst distance tells how far the truth is from a straight line.",
    ),
)
#: More paths than this, all in the cells of cases, start folded and are not plotted: the
#: plots of a thousand paths keep a browser busy for minutes.
_MOST_PATHS_BESIDE_CASES = 100
_TONES = {
    Word.MISSING: Tone.BAD,
    Word.SLOW: Tone.BAD,
    Word.SLOWER: Tone.BAD,
    Word.PREDICTED: Tone.PREDICTED,
    Word.HEALTHY: Tone.GOOD,
}
#: Longer tables of raw numbers start folded.
_MOST_OPEN_ROWS = 40
#: More rows than this make a page of tens of megabytes.
_MOST_RAW_ROWS = 10_000
#: More GPUs or nodes than this make a picture that must not shrink to a phone's width.
_NARROW_PARTS = 3
#: Of one result at a prompt.
_MOST_PATHS = 3
#: Confined to the class, because a notebook shares one document among all cells.
#: Colours are mixed from the notebook's own text colour, so that they suit its theme.
_STYLE = """<style>
.lanescope table{border-collapse:collapse;font-size:13px}
.lanescope caption{text-align:left;opacity:.75;caption-side:top}
.lanescope th,.lanescope td{text-align:left;vertical-align:top;padding:4px 8px}
.lanescope .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.lanescope .badge{font-weight:600;white-space:nowrap}
.lanescope .good{color:#1b9e77}.lanescope .bad{color:#d55e00}
.lanescope .wrong{color:#b5489a}.lanescope .predicted{color:#4a9ad4}
.lanescope .remedy{display:block;opacity:.75}.lanescope .meter{display:none}
.lanescope .scroll{overflow-x:auto}
</style>"""


def _method_bullets(results: Sequence[Result]) -> Bullets:
    """Return each method of timing once, with the experiments that used it."""
    users: dict[str, list[str]] = {}
    for result in results:
        if result.copies:
            users.setdefault(result.method, []).append(result.experiment.name)
    return Bullets([_method(method, names) for method, names in users.items()])


def _method(method: str, names: Sequence[str]) -> str:
    few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{method} ({few})"


def diagnosis_section(run: Run) -> Section:
    """Return what is wrong with the machine, from all results."""
    found = diagnose(run.manifest.machine, run.results)
    return Section("diagnoses", "Diagnoses", [Findings(found)] if found else ())


def result_sections(run: Run, *, mean: bool = False, verbose: bool = False) -> list[Section]:
    """Return the results of a run; sections without any hold no blocks.

    Parameters
    ----------
    mean
        Matrices of cases hold means and not medians.
    verbose
        Show every copy behind the matrices, those that interfere, too.
    """
    plain = plain_results(run.results)
    series = sweep_series(swept_results(plain))
    latencies = latency_rows(plain)
    study = study_named(run.manifest.verb)
    word = "Predicted" if run.predicted else "Measured"
    return [
        Section("cases", "Cases", case_blocks(run, mean=mean)),
        Section("verdicts", "Paths and verdicts", _paths(run, verbose=verbose)),
        Section("latencies", "Latencies", [latency_table(latencies)] if latencies else ()),
        Section("sweep", f"{word} curves", [sweep_table(series)] if series else ()),
        *(study.report(run) if study is not None else ()),
    ]


def _paths(run: Run, *, verbose: bool) -> Sequence[Block]:
    # those of suites have charts instead
    headline = [r for r in headline_rows(run) if not r.is_latency and not is_suite(r.result)]
    paths = bandwidth_rows(run.results) if verbose else headline
    totals = total_sentences(run.results) if run.manifest.verb == "copy" else ()
    if not paths:
        return ()
    blocks = [paths_table(paths), *([Bullets(totals)] if totals else ())]
    if not run.manifest.cases:
        return blocks
    crowded = len(paths) > _MOST_PATHS_BESIDE_CASES
    summary = count_text(len(paths), "path") if crowded else ""
    return [Details(blocks, summary, on_terminal=verbose)]


def page_html(run: Run, *, strict: bool = False, static: bool = False) -> str:
    """Return the report of a run as one self-contained HTML page.

    Parameters
    ----------
    strict
        Whether what could not be measured counts; see `outcome`.
    static
        See `document_page`.
    """
    return document_page(_run_document(run, strict=strict), static=static)


def run_plots(run: Run) -> list[AnyChart]:
    """Return all charts of a run's document."""
    return list(charts_of(_run_document(run).sections))


def _run_document(run: Run, *, strict: bool = False) -> Document:
    """Return all that is known of a run: what it comes to first, how it was timed last."""
    manifest, machine = run.manifest, run.manifest.machine
    study = study_named(manifest.verb)
    verb = manifest.verb.capitalize() if study is None else study.title
    rows = headline_rows(run)
    sections = (
        diagnosis_section(run),
        Section("findings", "Findings", taruc_findings(run)),
        Section("topology", "Topology", _topology(run)),
        *result_sections(run),
        Section("plots", "Plots", _charts(run, rows)),
        *taruc_sections(run),
        Section("machine", "Machine", _machine_blocks(machine)),
        Section("raw", "Raw numbers, predicted" if run.predicted else "Raw numbers", _raw(run)),
        Section("method", "How each was timed", _methods(run)),
        Section("definitions", "What the numbers mean", [Facts(DEFINITIONS)]),
    )
    return Document(
        title=f"lanescope {manifest.verb}: {machine.name}{' (predicted)' if run.predicted else ''}",
        heading=f"{verb} of {machine.name}",
        started=manifest.started,
        facts=(f"lanescope {manifest.tool_version}", manifest.state),
        commands=(manifest.command,),
        headline=_headline(run, rows, strict),
        sections=sections,
        tool_version=manifest.tool_version,
        banners=_banners(run),
    )


def _banners(run: Run) -> list[Banner]:
    found = []
    if run.predicted:
        more = (
            "computed from the limits and latencies of the machine's description; every predicted "
            "number is an upper bound."
        )
        found.append(Banner("Predicted, not measured", more, Tone.PREDICTED))
    if (unfinished := state_sentence(run.manifest.state)) is not None:
        found.append(Banner(unfinished))
    return found


def _headline(run: Run, rows: Sequence[PathRow], strict: bool) -> Headline:
    """The outcome, and below it every path that asks for something to be done."""
    out = outcome(run, strict=strict)
    notes = [f"Note: {note}" for note in run.manifest.notes]
    notes += [f"Not measured: {line}" for line in unmeasured(run)]
    blocks = (Bullets(open_points(rows)), Bullets(notes))
    return Headline(str(out), _TONES.get(out.word, Tone.OPEN), blocks)


def _topology(run: Run) -> list[Block]:
    machine = run.manifest.machine
    wide = max(len(machine.gpus), len(machine.nodes)) > _NARROW_PARTS
    return [Drawing(topology_svg(machine), wide)]


def _charts(run: Run, rows: Sequence[PathRow]) -> list[AnyChart]:
    """The charts of paths; those of suites and of the run's study stand in their sections."""
    crowded = bool(run.manifest.cases) and len(rows) > _MOST_PATHS_BESIDE_CASES
    series = sweep_series(swept_results(plain_results(run.results)))
    return run_charts(() if crowded else rows, series)


def _raw(run: Run) -> list[Block]:
    if not run.results:
        return []
    count = sum(max(len(r.copies), 1) for r in run.results)
    rows = count_text(count, "row")
    if count > _MOST_RAW_ROWS:
        command = Code("lanescope report RUN --csv")
        return [Text((f"{rows}, too many for a page: ", command, " prints them."))]
    name = f"lanescope-{run.manifest.verb}.csv"
    table = Details([raw_table(run.results)], rows, opened=count <= _MOST_OPEN_ROWS)
    return [Download(name, run_csv(run), "with every column"), table]


def _methods(run: Run) -> list[Block]:
    methods = _method_bullets(run.results)
    return [Details([methods], count_text(len(methods.items), "method"))] if methods.items else []


def _machine_blocks(machine: Machine) -> list[Block]:
    """Return the parts of a machine, its links, and what is not known of it."""
    blocks: list[Block] = []
    if machine.described:
        blocks.append(Text("Described in a file, not measured here."))
    blocks.append(_machine_parts(machine))
    if machine.links:
        blocks.append(_machine_links(machine))
    if machine.notes:
        blocks += [Text("What is not known, and why:"), Bullets(machine.notes)]
    return blocks


def _machine_parts(machine: Machine) -> Facts:
    pairs: list[tuple[str, Words]] = [("CPU", machine.cpu or "not known")]
    pairs += [(f"NUMA node {n.id}", _node_words(n)) for n in machine.nodes]
    pairs += [(f"GPU {g.id}", _gpu_words(g)) for g in machine.gpus]
    if not machine.gpus:
        pairs.append(("GPUs", "none"))
    pairs.append(("NVIDIA driver", machine.driver or MISSING))
    pairs.append(("CUDA", machine.cuda_version or MISSING))
    if machine.latencies.source is not None:
        pairs.append(("Latencies for predictions", machine.latencies.source))
    return Facts(pairs)


def _machine_links(machine: Machine) -> Table:
    columns = (
        Column("link"),
        Column("kind"),
        Column("generation", Kind.COUNT),
        Column("width", Kind.COUNT, "Lanes of PCIe, links of NVLink"),
        Column("raw GB/s", Kind.GBS, "What the wire carries one way after the line code"),
        Column("payload there GB/s", Kind.GBS, "From the first to the second part"),
        Column("payload back GB/s", Kind.GBS, "From the second to the first part"),
        Column("state"),
    )
    rows = [_link_cells(link) for link in machine.links]
    return Table("Links and their limits, in each direction", columns, [Group(rows)])


def _node_words(node: NumaNode) -> str:
    parts = [count_text(len(node.cores), "core") if node.cores else "no cores"]
    if node.memory_bytes is not None:
        size = f"{bytes_text(node.memory_bytes)} of " if node.memory_bytes else "no "
        parts.append(f"{size}memory")
    if node.cache_bytes is not None:
        parts.append(f"{bytes_text(node.cache_bytes)} of last-level cache")
    if node.memory_gbs is not None:
        parts.append(f"memory limit {gbs_text(node.memory_gbs)} GB/s")
    else:
        parts.append("memory limit not known")
    if node.memory_detail is not None:
        parts[-1] += f" ({node.memory_detail})"
    return ", ".join(parts)


def _gpu_words(gpu: Gpu) -> Words:
    parts = [gpu.name]
    if gpu.memory_bytes is not None:
        parts.append(bytes_text(gpu.memory_bytes))
    if gpu.compute_capability is not None:
        parts.append("compute capability {}.{}".format(*gpu.compute_capability))
    if gpu.multiprocessors is not None:
        parts.append(f"{gpu.multiprocessors} multiprocessors")
    if gpu.copy_engines is not None:
        parts.append(count_text(gpu.copy_engines, "copy engine"))
    if gpu.pci_address is not None:
        parts.append(gpu.pci_address)
    parts.append("nearest node not known" if gpu.node is None else f"near h{gpu.node}")
    if gpu.unavailable is None:
        return ", ".join(parts)
    return (", ".join(parts), "; ", Badge("not available", Tone.BAD), f": {gpu.unavailable}")


def _link_cells(link: Link) -> list[Value | TableCell]:
    generation, width = None, None
    if link.pcie is not None:
        generation, width = link.pcie.generation, f"x{link.pcie.width}"
    elif link.nvlink is not None:
        generation, width = link.nvlink.version, f"x{link.nvlink.count}"
    there, back = (None, None) if link.payload_gbs is None else link.payload_gbs
    kinds = {LinkKind.PCIE: "PCIe", LinkKind.NVLINK: "NVLink", LinkKind.SOCKET: "socket"}
    return [
        f"{link.a} – {link.b}",
        kinds[link.kind],
        generation,
        width,
        link.raw_gbs,
        there,
        back,
        _link_state(link),
    ]


def _link_state(link: Link) -> Value | TableCell:
    if (warning := trained_down_text(link)) is not None:
        return TableCell(warning, tone=Tone.BAD)
    nvlink = link.nvlink
    if nvlink is not None and nvlink.max_count is not None and nvlink.count < nvlink.max_count:
        return TableCell(f"{nvlink.count} of {nvlink.max_count} links up", tone=Tone.BAD)
    return "as fast as both ends allow" if _best_known(link) else None


def _best_known(link: Link) -> bool:
    if link.pcie is not None:
        return link.pcie.max_generation is not None and link.pcie.max_width is not None
    return link.nvlink is not None and link.nvlink.max_count is not None


def results_html(results: Iterable[Result]) -> str:
    """Return the verdict table of some results as an HTML fragment."""
    results = list(results)
    rows, latencies = bandwidth_rows(results), latency_rows(results)
    tables = [paths_table(rows)] if rows else []
    tables += [latency_table(latencies)] if latencies else []
    return _wrapped(blocks_html(tables) or "<p>no results</p>")


def result_text(result: Result) -> str:
    """Return what a prompt shows of a result: its title, and its first paths with their verdict."""
    rows = path_rows([result])
    about = result.experiment.title or result.experiment.name
    lines = [f"<Result: {about}, {source_word([result])}>", *map(_path_text, rows[:_MOST_PATHS])]
    more = len(rows) - _MOST_PATHS
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def _path_text(row: PathRow) -> str:
    if row.measured is None:
        return f"{row.label}: {row.verdict.status}: {row.verdict.reason}"
    if row.gbs is None:
        value = seconds_text(row.measured.statistics.median_seconds)
    else:
        value = f"{gbs_text(row.gbs)} GB/s"
    return f"{row.label}: {value}, {row.verdict.status}"


def run_text(run: Run) -> str:
    """Return what a prompt shows of a run: what it is, and what it comes to."""
    about = f"{run.manifest.verb} of {run.manifest.machine.name}, {run.manifest.state}"
    where = f", in {run.folder}" if run.folder else ""
    return f"<Run: {about}, {count_text(len(run.results), 'result')}{where}>\n{outcome(run)}"


def run_html(run: Run) -> str:
    """Return a run as an HTML fragment: its conclusion, what is wrong, and its results."""
    manifest = run.manifest
    state = state_sentence(manifest.state)
    parts = [
        f"<p><strong>{text(manifest.verb.capitalize())} of {text(manifest.machine.name)}</strong>"
        f"{', predicted, not measured' if run.predicted else ''}: {text(outcome(run))}</p>",
        f"<p>{text(state)}</p>" if state else "",
        blocks_html([diagnosis_section(run), *result_sections(run)]),
    ]
    return _wrapped("".join(parts))


class Plots:
    """Charts that a notebook shows, and that can be written as files."""

    def __init__(self, charts: Sequence[AnyChart]) -> None:
        self.charts = tuple(charts)

    def __repr__(self) -> str:
        return f"<Plots: {', '.join(chart.key for chart in self.charts) or 'none'}>"

    def _repr_html_(self) -> str:
        return _wrapped("".join(map(chart_picture, self.charts)) or "<p>nothing to plot</p>")

    @checked
    def save(self, folder: StrPath) -> list[Path]:
        """Write each chart as PNG and SVG, and return the files.

        Raises
        ------
        InputError
            If the folder cannot be written to, or vl-convert-python is not installed.
        """
        return write_charts(self.charts, Path(folder))


def plots_of(run: Run) -> Plots:
    """Return what a notebook shows of all charts of a run."""
    return Plots(run_plots(run))


def blocks_fragment(blocks: Iterable[Block]) -> str:
    """Return blocks as an HTML fragment."""
    return _wrapped(blocks_html(blocks))


def _wrapped(html: str) -> str:
    return f'<div class="lanescope">{_STYLE}{html}</div>'
