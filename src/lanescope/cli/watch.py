"""``lanescope watch``: what an unmodified program moves."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.options import Excludes, Needs, combines, flag, of_options, option, size_option
from lanescope.cli.own_process import ProgramEnded, report_fault
from lanescope.cli.terminal_text import is_terminal
from lanescope.errors import ExitCode, InputError, LanescopeError, expected
from lanescope.units.values import Duration, File, Folder, OneOf, Real, Value, Whole

if TYPE_CHECKING:
    from lanescope.cli.watch_progress import SummaryProgress
    from lanescope.findings.trace import Evaluation
    from lanescope.machine import Machine
    from lanescope.studies.watched import BoostedLaunch
    from lanescope.trace.run import WatchRun
    from lanescope.trace.summary import Assertion
    from lanescope.trace.watch_folder import WatchManifest
    from lanescope.watching.launcher import Waited
    from lanescope.watching.requests import LiveView, SourceRequest
    from lanescope.watching.session import Watch

_MAKES_THE_SUMMARY = (
    "lanescope.findings.trace",
    "lanescope.studies.watch_report",
    "lanescope.report.terminal",
    "lanescope.cli.output",
)
#: What `--trace` can be.
TRACE_CHOICES = ("calls", "always")


def _source_names() -> Sequence[str]:
    from lanescope.watching.source_choice import SOURCES

    return tuple(SOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What `lanescope watch` takes, as Typer reads it."""

    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGUMENTS]...", help="What to run.")
    ] = None
    everything: Annotated[bool, flag("--all", "Watch the whole machine, until Ctrl-C.")] = False
    pid: Annotated[
        int | None,
        option(
            Whole("--pid", 1, 1 << 22, "Linux has no higher ones"),
            "Watch while this process runs, which is not traced.",
            metavar="PID",
        ),
    ] = None
    seconds: Annotated[
        float | None,
        option(
            Real("--seconds", "seconds", 2_592_000, "30 days"),
            "With --all or --pid: end after so many seconds.",
            metavar="S",
        ),
    ] = None
    keep: Annotated[
        int | None,
        option(
            Duration("--keep", 60 * 10**9, 400 * 86_400 * 10**9, "from 60s to 400d"),
            "With --all: watch for ever and keep the last so long, such as 24h, in --out or the "
            "run 'continuous'; 'lanescope report continuous --last 10min' shows it.",
        ),
    ] = None
    metrics: Annotated[
        str | None,
        option(
            Value("--metrics"),
            "With --keep: where metrics for Prometheus are served, a port or an address and a "
            "port, or 'off'.",
            metavar="ADDRESS",
            shown="127.0.0.1:9469",
        ),
    ] = None
    live: Annotated[bool, flag("--live", "Show rates on the terminal while they are counted.")] = (
        False
    )
    source: Annotated[
        list[str] | None,
        option(
            OneOf("--source", _source_names),
            "pm, counters, throughput, calls, trace or probe; may be repeated; default: the best "
            "counters that work here, and calls (with --trace always: trace).",
        ),
    ] = None
    interval: Annotated[
        int | None,
        option(
            Duration("--interval", 1_000, 1_000_000_000, "from 1us to 1s"),
            "From sample to sample of pm.",
            shown="100us, with --keep 1ms",
        ),
    ] = None
    trace: Annotated[
        str,
        option(
            OneOf("--trace", lambda: TRACE_CHOICES),
            "calls: record copies as they are called for, which costs a program nothing. always: "
            "trace on the GPU, too, when each was copied, by CUPTI.",
            metavar="calls|always",
            shown="calls",
        ),
    ] = "calls"
    kernels: Annotated[bool, flag("--kernels", "Trace kernels, too.")] = False
    managed: Annotated[
        bool,
        flag(
            "--managed",
            "Trace migrations and page faults of managed memory, too; a program that faults often "
            "is slowed down.",
        ),
    ] = False
    addresses: Annotated[
        bool,
        flag(
            "--addresses",
            "Note the addresses of each copy and the NUMA node of its host memory; each call that "
            "copies takes some µs longer.",
        ),
    ] = False
    hashes: Annotated[
        bool,
        flag(
            "--hash",
            "Find data that is sent again unchanged: reads all bytes that are copied to GPUs, in "
            "the thread that copies, which takes about as long as the copy; with --addresses.",
        ),
    ] = False
    python: Annotated[
        bool,
        flag(
            "--python",
            "Record which line of Python called for each large copy; reading that takes at most "
            "1 % of a thread's time.",
        ),
    ] = False
    python_from: Annotated[
        int, size_option("--python-from", "Least copies that --python is for.", shown="1MiB")
    ] = 1 << 20
    chunk: Annotated[
        int, size_option("--chunk", "Of each copy of probe.", shown="200KiB", least=4, most=1 << 30)
    ] = 200 << 10
    gentle: Annotated[bool, flag("--gentle", "Let probe copy every 50 ms, not all the time.")] = (
        False
    )
    assertions: Annotated[
        list[str] | None,
        typer.Option(
            "--assert",
            metavar="CONDITION",
            help="Such as 'h2d.p50 > 40GB/s'; exit with 1 when it does not hold and the program "
            "itself has ended well; may be repeated.",
        ),
    ] = None
    json: Annotated[
        Path | None, option(File("--json", (".json",)), "Write the summary there as JSON.")
    ] = None
    out: Annotated[
        Path | None,
        option(
            Folder("--out"),
            "The run's folder; with %p or %q{VARIABLE} in it one for each process of a job; "
            "default: a new one.",
        ),
    ] = None
    turns: Annotated[
        int,
        option(
            Whole("--turns", 0, 1000, "each runs the program twice"),
            "Then run the program N times more without and with watching, in turns, and tell what "
            "watching costs; what it prints then is dropped.",
            shown="0",
        ),
    ] = 0
    boost: Annotated[
        bool,
        flag(
            "--boost",
            "Carry the program's large copies of pageable memory, too, as lanescope boost does, "
            "and tell what was carried.",
        ),
    ] = False
    max_spool: Annotated[
        int | None,
        size_option(
            "--max-spool",
            "That spools may take on the disk while it is watched, the finest records are left out "
            "first; default: a quarter of what is free, and half of that stays free anyway.",
            least=1 << 20,
        ),
    ] = None
    quiet: Annotated[bool, flag("--quiet", "No summary.", "-q")] = False

    @property
    def names(self) -> tuple[str, ...] | None:
        """The sources that were named, each once; None for the best."""
        return tuple(dict.fromkeys(self.source)) if self.source else None


@combines(
    Excludes("--live", ("--turns",), "draws one watch, and --turns are many"),
    Needs(("--keep",), ("--all",), "watches the whole machine"),
    Needs(("--metrics",), ("--keep",), "is of a watch without an end"),
    Needs(("--python-from",), ("--python",), "is the least size of copies whose line is recorded"),
    Excludes("--boost", ("--turns",), "changes what is run; 'lanescope boost --turns' measures it"),
    Excludes("--boost", ("--all", "--pid"), "is for a program that is run"),
    Excludes(
        "--keep",
        ("--live", "--json", "--assert", "--seconds", "--pid", "--turns", "--python", "--boost"),
        "watches without an end, and has no summary",
    ),
)
@of_options(WatchOptions)
def watch(given: WatchOptions) -> None:
    """Run a program, unchanged, and tell what it moved between the host and GPUs.

    Its input, output and exit code stay its own; the summary goes to standard error. Instead of
    a program the whole machine can be watched, or the time of a process that runs already.
    """
    if given.keep is not None:
        return _watch_continuously(given, given.keep)
    with reporting_interruptions(nothing_begun=True):
        from lanescope.cli.watch_progress import SummaryProgress

        conditions = _conditions(given.assertions or ())
        what, boosted = _requested(given, conditions)
        progress = SummaryProgress(shown=not given.quiet)
        what = replace(what, finishing=progress.begin)
    with reporting_interruptions(), progress:
        run = _watched(what, quiet=given.quiet)
        ended = run.manifest.exit_code
        with _keeping_exit_code(run, progress):
            if boosted is not None:
                run = boosted.add_to(run)
            if given.turns:
                progress.end()
                run = _in_turns(what, given.turns, run)
            shown, holds = _summed_up(run, given, conditions, progress)
    if not holds:
        raise ProgramEnded(ended or ExitCode.SLOW)
    if ended is None and shown and not any(one.used for one in run.manifest.sources):
        ended = ExitCode.NOT_AS_EXPECTED
    raise ProgramEnded(ended if ended is not None else 0 if shown else ExitCode.INPUT)


def _watch_continuously(given: WatchOptions, keep_ns: int) -> None:
    from lanescope.cli.live import watch_continuously
    from lanescope.watching.launcher import waited_for

    machine = waited_for(
        given.program or (), everything=given.everything, pid=given.pid, seconds=None
    )
    _require_effect(given.names, _request(given, machine))
    if "probe" in (given.names or ()):
        raise InputError(
            "--keep stores what counters count, and source probe counts nothing; leave it out"
        )
    watch_continuously(
        keep_ns,
        given.names,
        given.interval,
        given.metrics,
        given.out,
        given.max_spool,
        quiet=given.quiet,
    )


def _requested(
    given: WatchOptions, conditions: Sequence[Assertion]
) -> tuple[Watch, BoostedLaunch | None]:
    """Return the watch that the options describe, and the boost of its program."""
    from lanescope.watching.launcher import waited_for
    from lanescope.watching.requests import request_watch

    waited = waited_for(
        given.program or (), everything=given.everything, pid=given.pid, seconds=given.seconds
    )
    boosted = _boosted(waited) if given.boost else None
    if given.turns and not waited.traceable:
        raise InputError("--turns runs a program again and again; name one after --")
    shown_live = _live_view(launches=waited.traceable) if given.live else None
    request = _request(given, waited)
    _require_effect(given.names, request)
    what = request_watch(
        request,
        boosted or waited,
        shlex.join(["lanescope", *sys.argv[1:]]),
        given.out,
        live=shown_live,
        max_spool_bytes=given.max_spool,
        # more than an exit code is wanted of the others, whatever the program does
        needed_later=_MAKES_THE_SUMMARY,
        in_hurry=not (conditions or given.turns or given.json is not None),
    )
    if not (waited.traceable or given.names or given.quiet):
        _warn_without_counters(what.machine, request)
    return what, boosted


def _request(given: WatchOptions, waited: Waited) -> SourceRequest:
    from lanescope.watching.requests import DEFAULT_INTERVAL_NS, SourceRequest

    return SourceRequest(
        given.names,
        given.interval or DEFAULT_INTERVAL_NS,
        kernels=given.kernels,
        managed=given.managed,
        addresses=given.addresses,
        hashes=given.hashes,
        python_bytes=given.python_from if given.python else None,
        chunk_bytes=given.chunk,
        gentle=given.gentle,
        trace=given.trace == "always",
        traceable=waited.traceable,
        program=waited.program,
    )


def _watched(what: Watch, *, quiet: bool) -> WatchRun:
    """Watch, and return what was recorded; all else ends the process as the program did."""
    from lanescope.interruption import Interrupted
    from lanescope.watching.session import EndedEarlyError, NotStoredError
    from lanescope.watching.session import watch as run_watch

    try:
        return run_watch(what)
    except EndedEarlyError as end:
        raise _ended_early(end.manifest, end.folder, quiet=quiet) from None
    except NotStoredError as error:
        if isinstance(error.__cause__, LanescopeError | Interrupted):
            raise
        fault = report_fault(error.__cause__ or error)
        raise NotStoredError(f"{fault}; {error}", error.exit_code) from error


@contextmanager
def _keeping_exit_code(run: WatchRun, progress: SummaryProgress) -> Iterator[None]:
    """Tell what fails behind a program's end, and end as the program did."""
    from lanescope.interruption import Interrupted
    from lanescope.watching.session import summary_interrupted

    assert run.folder is not None, "a watch is always stored"
    try:
        yield
    except Interrupted as error:
        raise summary_interrupted(run.manifest, run.folder, error) from error
    except Exception as error:
        progress.end()
        known = expected(error)
        said = str(known) if known else report_fault(error)
        if known is not error:
            said += f"; what was watched is stored in {run.folder}"
        print(f"lanescope: {said}", file=sys.stderr)
        ended = run.manifest.exit_code
        failed = ExitCode.INPUT if known else ExitCode.FAULT
        raise ProgramEnded(failed if ended is None else ended) from error


def _summed_up(
    run: WatchRun,
    given: WatchOptions,
    conditions: Sequence[Assertion],
    progress: SummaryProgress,
) -> tuple[bool, bool]:
    """Write and print what a watch shows; return whether that worked and all conditions hold."""
    from lanescope.findings.trace import evaluate_watch

    progress.step("summing it up")
    evaluation = evaluate_watch(run)
    progress.step("writing the page")
    shown = _shown(run, evaluation, given.json, progress, quiet=given.quiet)
    return shown, _hold(conditions, evaluation)


def _boosted(waited: Waited) -> BoostedLaunch:
    from lanescope.studies.watched import BoostedLaunch

    return BoostedLaunch(waited)


def _conditions(texts: Sequence[str]) -> list[Assertion]:
    if not texts:
        return []
    from lanescope.trace.summary import parse

    return [parse(text) for text in texts]


def _live_view(*, launches: bool) -> LiveView:
    from lanescope.cli.live import check_terminal, live_view

    check_terminal(launches=launches)
    return live_view


def _ended_early(manifest: WatchManifest, folder: Path, *, quiet: bool) -> ProgramEnded:
    """Say that nothing was watched, and return the end."""
    if not quiet:
        assert manifest.end_ns is not None, "it has ended"
        lasted = (manifest.end_ns - manifest.start_ns) * 1e-9
        why = (
            "The program ended before counters were ready, and no use of CUDA was noticed, which "
            "would have waited for them: there is nothing to report."
        )
        if not any(source.used for source in manifest.sources):
            why = "There is nothing to report. " + " ".join(
                one.sentence for one in manifest.sources
            )
        print(f"Watched {lasted:.3g} s. {why}\nrun:  {folder}", file=sys.stderr)
    return ProgramEnded(manifest.exit_code or 0)


def _require_effect(names: Sequence[str] | None, request: SourceRequest) -> None:
    """Refuse options of sources that --source leaves out.

    Raises
    ------
    InputError
        If there is one.
    """
    from lanescope.watching.requests import SourceRequest

    default = SourceRequest()
    options = {"trace": "--trace always", "hashes": "--hash"}
    of_trace = ("trace", "kernels", "managed", "addresses", "hashes")
    for source, fields in (
        ("pm", {"interval_ns": "--interval"}),
        ("probe", {"chunk_bytes": "--chunk", "gentle": "--gentle"}),
        ("trace", {name: options.get(name, f"--{name}") for name in of_trace}),
    ):
        changed = [
            option
            for name, option in fields.items()
            if getattr(request, name) != getattr(default, name)
        ]
        if changed and source not in (names or ("pm", "trace")):
            raise InputError(
                f"{changed[0]} is of source {source}; give --source {source}, too, or leave it out"
            )


def _warn_without_counters(machine: Machine, request: SourceRequest) -> None:
    """Say before a watch of hours that it will count nothing."""
    from lanescope.watching.source_choice import counters_work

    if not counters_work(machine, request):
        said = "no counters work here: nothing will be counted; see 'lanescope doctor'"
        print(said, file=sys.stderr, flush=True)


@contextmanager
def reporting_interruptions(*, nothing_begun: bool = False) -> Iterator[None]:
    """Report an interruption before anything ran, in one sentence.

    Parameters
    ----------
    nothing_begun
        Whether no file is written in the block and no source started.

    Raises
    ------
    NotStoredError
        In place of the interruption.
    """
    from lanescope.interruption import Interrupted
    from lanescope.watching.signals import interruptible

    try:
        with interruptible(ends_process=nothing_begun):
            yield
    except Interrupted as error:
        from lanescope.watching.session import NotStoredError

        sentence = "interrupted before anything was watched; no program was started"
        raise NotStoredError(sentence, error.exit_code) from error


def _in_turns(what: Watch, count: int, run: WatchRun) -> WatchRun:
    """Return the run with what watching costs its program; what stands in the way is told."""
    from lanescope.trace.run import read_turns
    from lanescope.watching.cost import take_turns
    from lanescope.watching.session import no_progress

    what = replace(what, finishing=no_progress)
    assert run.folder is not None, "a watch is always stored"
    try:
        return replace(run, turns=take_turns(what, count, run.folder))
    except InputError as error:
        print(f"lanescope: {error}", file=sys.stderr)
        # those that were done are stored, and a report tells them, too
        return replace(run, turns=read_turns(run.folder))


def _shown(
    run: WatchRun,
    evaluation: Evaluation,
    json: Path | None,
    progress: SummaryProgress,
    *,
    quiet: bool,
) -> bool:
    """Show a watch; what cannot be written is told, and the program's exit code stays."""
    try:
        _show(run, evaluation, json, progress, quiet=quiet)
    except InputError as error:
        progress.end()
        print(f"lanescope: {error}", file=sys.stderr)
        return False
    return True


def _show(
    run: WatchRun,
    evaluation: Evaluation,
    json: Path | None,
    progress: SummaryProgress,
    *,
    quiet: bool,
) -> None:
    """Write the page and the JSON, and the summary to standard error."""
    from lanescope.cli.output import console, no_page
    from lanescope.codec.files import write_text
    from lanescope.report.terminal import renderables
    from lanescope.store.store import PAGE
    from lanescope.studies.watch_report import (
        summary_json,
        watch_page_html,
        watch_terminal,
    )

    assert run.folder is not None, "a watch is always stored"
    if json is not None:
        import json as encoder

        content = summary_json(evaluation.summary, evaluation.findings, run.manifest.state)
        write_text(json, encoder.dumps(content, indent=2) + "\n")
    said = f"page: {run.folder / PAGE}"
    try:
        write_text(run.folder / PAGE, watch_page_html(run, evaluation), inner=1)
    except InputError as error:
        said = no_page(run.folder, error)
        if quiet:
            print(said, file=sys.stderr)
    progress.end()
    if quiet:
        return
    out = console(error=True, soft_wrap=not is_terminal(sys.stderr))
    for part in renderables(watch_terminal(run, evaluation)):
        out.print(part)
    out.print(f"{said}\nrun:  {run.folder}", soft_wrap=True)


def _hold(conditions: Sequence[Assertion], evaluation: Evaluation) -> bool:
    """Whether all conditions hold; each outcome is told on standard error."""
    from lanescope.trace.summary import evaluate

    outcomes = [evaluate(condition, evaluation.summary) for condition in conditions]
    for outcome in outcomes:
        print(outcome.sentence, file=sys.stderr)
    return all(outcome.passed for outcome in outcomes)
