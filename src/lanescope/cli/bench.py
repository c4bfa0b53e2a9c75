"""``lanescope bench``: the cases of nvbandwidth."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lanescope.cli.options import (
    LISTED,
    NOT_STORED,
    ONE_FORMAT,
    PREDICTED,
    BaselineOption,
    BusyOption,
    CsvOption,
    Excludes,
    Exclusive,
    Ignored,
    KeepsRules,
    MachineOption,
    Needs,
    NoPageOption,
    NoStoreOption,
    OutOption,
    StrictOption,
    WithinOption,
    budget_option,
    combines,
    flag,
    given_options,
    of_options,
    option,
    part_option,
    plan_of,
    samples_option,
    size_option,
    target_option,
)
from lanescope.cli.own_process import load_what_shows_a_run, start_driver
from lanescope.cli.studies import carry_out
from lanescope.errors import InputError
from lanescope.units.values import File, OneOf, Value, Whole

if TYPE_CHECKING:
    from lanescope.engine.sampling import Plan
    from lanescope.fleet.remote_processes import RemoteNodes
    from lanescope.store.run import Run
    from lanescope.studies.nvbandwidth import Bench
    from lanescope.studies.nvbandwidth_cases import CaseOptions

#: Options that take every word up to the next option, as they do in nvbandwidth.
_MANY = ("-t", "--testcase", "-p", "--testcasePrefixes")
#: What a suite takes, too.
_OF_SUITES = (
    *("--resume", "--list", "--budget", "--target", "--machine", "--out", "--json", "--csv"),
    *("--strict", "--allow-busy", "--within", "--no-page", "--no-store"),
)
_RULES = (
    ONE_FORMAT,
    NOT_STORED,
    PREDICTED,
    Needs(("--resume",), ("--params",), "goes on with a suite, which a parameter file describes"),
    Needs(("--resume",), ("--out",), "goes on with a run folder"),
    Exclusive("--params", _OF_SUITES, "runs a suite, and other options are of nvbandwidth's cases"),
    Exclusive("--list", ("--params", "--resume", "--budget", "--target", "--machine"), LISTED),
    Excludes("--pair", ("--pairs",), "names the pair that --pairs would draw"),
    Excludes("--size", ("--bufferSize",), "and --bufferSize say the same"),
    Ignored(("--mean", "--verbose"), "--csv", "CSV holds every copy with median and mean"),
    Ignored(
        ("--mean", "--verbose"), "--json", "JSON holds every copy with its samples", "--format"
    ),
)


def _note_new(folder: Path | None) -> None:
    """Say where --resume finds no run, as it may be a slip of the pen."""
    from lanescope.store.folder import MANIFEST

    if folder is not None and not (folder / MANIFEST).is_file():
        print(f"note: there is no run in {folder} to go on with: it is begun", file=sys.stderr)


class BenchGroup(KeepsRules, TyperGroup):
    """Lets ``-t A B C`` stand for ``-t A -t B -t C``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Spread the words behind the options that take many."""
        return super().parse_args(ctx, list(_spread(args)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Say how a case is named to whoever names it as if it were a command."""
        from lanescope.studies.nvbandwidth_cases import case_list

        if any(name == args[0] for name, _ in case_list() + case_list(further=True)):
            raise InputError(f"{args[0]} is a case; name cases with -t, as in -t {args[0]}")
        return super().resolve_command(ctx, args)


def _spread(args: Iterable[str]) -> Iterable[str]:
    option, taken = "", 0
    for word in args:
        if word.startswith("-"):
            if option and not taken and word.startswith("--"):  # it would be taken for a name
                raise InputError(f"{option} takes names of cases; 'bench --list' shows them")
            option, taken = (word if word in _MANY else ""), 0
        elif option:
            if taken:
                yield option
            taken += 1
        yield word


def _memories() -> Sequence[str]:
    from lanescope.copies.terms import HOST_MEMORIES

    return HOST_MEMORIES


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What `lanescope bench` takes, as Typer reads it."""

    ctx: typer.Context
    testcase: Annotated[
        list[str] | None,
        typer.Option(
            "-t", "--testcase", metavar="NAME...", help="Cases to run, by name or number."
        ),
    ] = None
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "-p", "--testcasePrefixes", metavar="PREFIX...", help="Cases to run, by beginning."
        ),
    ] = None
    list_cases: Annotated[bool, flag("--list", "List the cases.", "-l")] = False
    size: Annotated[int | None, size_option("--size", "Bytes of each copy; default 512MiB.")] = None
    buffer_mib: Annotated[
        int | None,
        option(
            Whole("--bufferSize", 1, 1 << 30, "up to 1 PiB"),
            "The same as a number of MiB.",
            "-b",
            metavar="MIB",
        ),
    ] = None
    samples: Annotated[int | None, samples_option("-i", "--testSamples")] = None
    mean: Annotated[bool, flag("--useMean", "Show means and not medians.", "--mean", "-m")] = False
    skip_verification: Annotated[
        bool, flag("--skipVerification", "Do not compare the bytes.", "--skip-verification", "-s")
    ] = False
    no_affinity: Annotated[
        bool,
        flag(
            "--disableAffinity",
            "Do not bind threads to the CPUs next to the memory.",
            "--no-affinity",
            "-d",
        ),
    ] = False
    memory: Annotated[
        str,
        option(
            OneOf("--memory", _memories),
            "Host memory: pinned, pageable, write-combined, mapped, managed or huge.",
            metavar="KIND",
            shown="pinned",
        ),
    ] = "pinned"
    node: Annotated[
        int | None, part_option("--node", "NUMA node of host memory; default: nearest.")
    ] = None
    pairs: Annotated[
        int | None,
        option(
            Whole("--pairs", 1, 1 << 20, "more GPUs are in no machine"),
            "Draw so many pairs of GPUs; default: all.",
        ),
    ] = None
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--pair",
            metavar="GPU GPU",
            help="Of cases of pairs only these two, such as g0 g1 or two UUIDs.",
        ),
    ] = None
    form: Annotated[
        str,
        option(
            OneOf("--format", lambda: ("lanescope", "nvbandwidth")),
            "lanescope, or nvbandwidth for the shape of its text, and with --json of its JSON.",
            shown="lanescope",
        ),
    ] = "lanescope"
    verbose: Annotated[bool, flag("--verbose", "Show every copy.", "-v")] = False
    params: Annotated[
        str | None,
        option(
            Value("--params"),
            "Run the suite of a parameter file (TOML, or TARUC's .in), or one that ships: default, "
            "taruc.",
            metavar="FILE_OR_NAME",
        ),
    ] = None
    resume: Annotated[bool, flag("--resume", "With --params: go on with the run in --out.")] = False
    budget: Annotated[
        float,
        budget_option(
            "Sampling time for one set of copies, at most; 0.15 s where the target would take over "
            "0.6 s, unless you give it.",
            "0.3",
        ),
    ] = 0.3
    target: Annotated[float, target_option("0.5%")] = 0.005
    within: WithinOption = None
    machine: MachineOption = None
    out: OutOption = None
    no_page: NoPageOption = False
    no_store: NoStoreOption = False
    json: Annotated[bool, flag("--json", "Print the run as JSON.", "-j")] = False
    csv: CsvOption = False
    strict: StrictOption = False
    baseline: BaselineOption = None
    allow_busy: BusyOption = False

    @property
    def page(self) -> bool:
        """Whether a page is written."""
        return not (self.no_page or self.no_store)


@combines(*_RULES)
@of_options(BenchOptions)
def bench(given: BenchOptions) -> None:
    """Measure every pattern of copies: the cases of nvbandwidth, all of them by default.

    With --params, the micro-benchmarks of TARUC: memory overhead, copies, single loads and
    contention by NUMA node. Other benchmarks are commands of their own, listed below.
    """
    if (command := given.ctx.invoked_subcommand) is not None:
        _require_none_before(command, given_options(given.ctx))
    elif given.params is not None:
        _run_suite(given, given.params)
    elif given.list_cases:
        _list()
    else:
        _measure(given)


def _require_none_before(command: str, options: Sequence[str]) -> None:
    if options:
        raise InputError(
            f"{options[0]} stands before {command!r}, whose options stand behind it; leave out "
            f"{options[0]}, or {command!r}"
        )


def _run_suite(given: BenchOptions, parameters: str) -> None:
    """Run a suite, or list its points; ends with an exit code."""
    from lanescope.studies.taruc.study import PLAN, Suite, parameter_file

    named = given_options(given.ctx)
    # not ctx.params: some versions of typer keep texts there
    plan = plan_of(
        PLAN,
        given.target if "--target" in named else None,
        given.budget if "--budget" in named else None,
        given.within,
    )
    if given.resume and not given.list_cases:
        _note_new(given.out)
    carry_out(
        Suite(parameter_file(parameters)),
        plan,
        machine=given.machine,
        list_them=given.list_cases,
        baseline=given.baseline,
        out=given.out,
        json=given.json,
        csv=given.csv,
        strict=given.strict,
        allow_busy=given.allow_busy,
        resume=given.resume,
        no_page=given.no_page,
        no_store=given.no_store,
    )


def _measure(given: BenchOptions) -> None:
    """Measure cases of nvbandwidth and show them; ends with an exit code."""
    if given.machine is None:
        start_driver()
    from lanescope.cli.output import baseline_named, compared_with, print_blocks
    from lanescope.cli.studies import nodes_for
    from lanescope.studies.nvbandwidth import Bench

    if given.csv and given.form == "nvbandwidth":
        raise InputError("nvbandwidth prints no CSV; leave out --csv or --format")
    plan = plan_of(
        Bench.sampling,
        given.target,
        given.budget,
        given.within,
        samples=given.samples,
        verify=not given.skip_verification,
    )
    options = _options(given)
    compare = None if given.baseline is None else baseline_named(given.baseline)
    study = Bench(
        cases=given.testcase or (),
        prefixes=given.prefix or (),
        options=options,
        affinity=not given.no_affinity,
    )
    with ExitStack() as stack:
        nodes = stack.enter_context(nodes_for(study, given.machine, allow_busy=given.allow_busy))
        out = given.out
        if given.no_store:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory())) / study.verb
        run, blocks = compared_with(compare, _run(study, plan, given, out, nodes))
        code = _show(run, given)
        print_blocks(blocks, error=given.json or given.csv)
        raise typer.Exit(code)


def _run(
    study: Bench, plan: Plan, given: BenchOptions, out: Path | None, nodes: RemoteNodes | None
) -> Run:
    """Return the run of the cases; it is in `out`, a folder that --no-store removes."""
    from lanescope.cli.output import progress_on_terminal
    from lanescope.copies.requirements import require_fits
    from lanescope.studies.running import resolve_machine
    from lanescope.studies.study import run_study

    machine = resolve_machine(given.machine) if nodes is None else nodes.machine
    if given.size is not None or given.buffer_mib is not None:
        require_fits(machine, _options(given).bytes)
    if given.machine is None:
        load_what_shows_a_run()
    with progress_on_terminal() as progress:
        run = run_study(
            study,
            machine,
            plan=plan,
            allow_busy=given.allow_busy,
            out=out,
            progress=progress,
            nodes=nodes,
        )
    return replace(run, folder=None) if given.no_store else run


def _list() -> None:
    from lanescope.studies.nvbandwidth_cases import case_list

    for number, (name, description) in enumerate(case_list() + case_list(further=True)):
        print(f"{number:2}  {name:50} {description}")


def _options(given: BenchOptions) -> CaseOptions:
    from lanescope.copies.terms import Memory
    from lanescope.studies.nvbandwidth_cases import CaseOptions

    buffer_bytes = CaseOptions().bytes if given.buffer_mib is None else given.buffer_mib << 20
    memory = Memory(given.memory)
    return CaseOptions(given.size or buffer_bytes, memory, given.node, given.pairs, given.pair)


def _show(run: Run, given: BenchOptions) -> int:
    from lanescope.cli.output import exit_code, say_where, show_run

    if given.form == "lanescope" or given.csv:
        return show_run(
            run,
            json=given.json,
            csv=given.csv,
            strict=given.strict,
            mean=given.mean,
            verbose=given.verbose,
            page=given.page,
        )
    from lanescope.studies.nvbandwidth import nvbandwidth_json, nvbandwidth_text

    say_where(run, strict=given.strict, page=given.page)
    make = nvbandwidth_json if given.json else nvbandwidth_text
    print(make(run, mean=given.mean, verbose=given.verbose), end="")
    return exit_code(run, strict=given.strict)


def params(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_NAME",
            help="A parameter file (TOML, or TARUC's .in), or a suite that ships: default, taruc.",
        ),
    ] = "default",
    out: Annotated[
        Path | None, option(File("--out", (".toml",)), "Where to; default: print it.")
    ] = None,
) -> None:
    """Write the parameters of a suite as TOML, from TARUC's own .in file or any other.

    Checks them on the way: what is wrong is named by line. Every parameter is written, with
    what it means, so that this also makes a file to begin with.
    """
    from lanescope.codec.files import write_text
    from lanescope.studies.taruc.parameters import parameters_named, parameters_text

    text = parameters_text(parameters_named(file).parameters)
    if out is None:
        print(text, end="")
        return
    write_text(out, text)
    print(out)
