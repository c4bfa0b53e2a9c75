"""``lanescope bench``: the cases of nvbandwidth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    MachineOption,
    OutOption,
    StrictOption,
    TargetOption,
    WithinOption,
    plan_of,
    require_one_format,
)
from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.experiment.cases import CaseOptions
    from lanescope.run.run import Run

#: Options that take every word up to the next option, as they do in nvbandwidth.
_MANY = ("-t", "--testcase", "-p", "--testcasePrefixes")


class BenchGroup(TyperGroup):
    """Lets ``-t A B C`` stand for ``-t A -t B -t C``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Spread the words behind the options that take many."""
        return super().parse_args(ctx, list(_spread(args)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Say how a case is named to whoever names it as if it were a command."""
        from lanescope.experiment.cases import case_list

        if any(name == args[0] for name, _ in case_list()):
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


def bench(
    ctx: typer.Context,
    testcase: Annotated[
        list[str] | None,
        typer.Option(
            "-t", "--testcase", metavar="NAME...", help="Cases to run, by name or number."
        ),
    ] = None,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "-p", "--testcasePrefixes", metavar="PREFIX...", help="Cases to run, by beginning."
        ),
    ] = None,
    list_cases: Annotated[bool, typer.Option("-l", "--list", help="List the cases.")] = False,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="SIZE", help="Bytes of each copy; default 512MiB."),
    ] = None,
    buffer_mib: Annotated[
        int | None,
        typer.Option("-b", "--bufferSize", metavar="MIB", help="The same as a number of MiB."),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            "-i",
            "--testSamples",
            "--samples",
            min=1,
            metavar="N",
            help="Samples of each copy; default: until the target is reached.",
        ),
    ] = None,
    mean: Annotated[
        bool, typer.Option("-m", "--useMean", "--mean", help="Show means and not medians.")
    ] = False,
    skip_verification: Annotated[
        bool,
        typer.Option(
            "-s", "--skipVerification", "--skip-verification", help="Do not compare the bytes."
        ),
    ] = False,
    no_affinity: Annotated[
        bool,
        typer.Option(
            "-d",
            "--disableAffinity",
            "--no-affinity",
            help="Do not bind threads to the CPUs next to the memory.",
        ),
    ] = False,
    memory: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Host memory: pinned, pageable, write-combined, mapped, managed or huge.",
        ),
    ] = "pinned",
    node: Annotated[
        int | None, typer.Option(metavar="N", help="NUMA node of host memory; default: nearest.")
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Draw so many pairs of GPUs; default: all."),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="lanescope, or nvbandwidth for the "
            "shape of its text, and with --json of its JSON.",
        ),
    ] = "lanescope",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show every copy.")] = False,
    params: Annotated[
        str | None,
        typer.Option(
            "--params",
            metavar="FILE_OR_NAME",
            help="Run the suite of a parameter file (TOML, or TARUC's .in), or one that ships: "
            "default, taruc.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="With --params: go on with the run in --out.")
    ] = False,
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Sampling time for one set of copies, at most.")
    ] = 0.4,
    target: TargetOption = "0.5%",
    within: WithinOption = None,
    machine: MachineOption = None,
    out: OutOption = None,
    json: Annotated[bool, typer.Option("-j", "--json", help="Print the run as JSON.")] = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Measure every pattern of copies: the cases of nvbandwidth, all of them by default.

    With --params, the micro-benchmarks of TARUC: memory overhead, copies, single loads and
    contention by NUMA node. Other benchmarks are commands of their own, listed below.
    """
    if ctx.invoked_subcommand is not None:
        if params is not None or resume:
            raise InputError(f"--params runs a whole suite; leave out {ctx.invoked_subcommand!r}")
        return
    if params is not None or resume:
        from lanescope.cli.suite import BUDGET, TARGET, Common, run_suite

        given = {name for name in ctx.params if _is_given(ctx, name)}
        # not ctx.params: some versions of typer keep texts there
        common = Common(
            machine=machine,
            out=out,
            budget=budget if "budget" in given else BUDGET,
            target=target if "target" in given else TARGET,
            within=within,
            list_points=list_cases,
            json=json,
            csv=csv,
            strict=strict,
            allow_busy=allow_busy,
            resume=resume,
        )
        run_suite(params, given, common)
        return
    if list_cases:
        _list()
        return
    require_one_format(json, csv)
    from lanescope import api
    from lanescope.cli.output import exit_code, progress_on_terminal

    if form not in ("lanescope", "nvbandwidth"):
        raise InputError(f"--format {form!r} is not known; use lanescope or nvbandwidth")
    if csv and form == "nvbandwidth":
        raise InputError("nvbandwidth prints no CSV; leave out --csv or --format")
    plan = plan_of(target, budget, within, samples=samples, verify=not skip_verification)
    options = _options(size, buffer_mib, memory, node, pairs)
    with progress_on_terminal() as progress:
        run = api.bench(
            machine,
            cases=testcase or [],
            prefixes=prefix or [],
            options=options,
            plan=plan,
            allow_busy=allow_busy,
            affinity=not no_affinity,
            out=out,
            progress=progress,
        )
    _show(run, form=form, json=json, csv=csv, strict=strict, mean=mean, verbose=verbose)
    raise typer.Exit(exit_code(run, strict=strict))


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _list() -> None:
    from lanescope.experiment.cases import case_list

    for number, (name, description) in enumerate(case_list()):
        print(f"{number:2}  {name:50} {description}")


def _options(
    size: str | None, buffer_mib: int | None, memory: str, node: int | None, pairs: int | None
) -> CaseOptions:
    from lanescope.experiment.cases import CaseOptions
    from lanescope.experiment.place import HOST_MEMORIES, Memory
    from lanescope.experiment.sizes import parse_size

    if size is not None and buffer_mib is not None:
        raise InputError("--size and --bufferSize say the same; give one of them")
    if buffer_mib is not None and buffer_mib < 1:
        raise InputError(f"--bufferSize {buffer_mib} holds nothing; give 1 MiB or more")
    if memory not in HOST_MEMORIES:
        kinds = ", ".join(HOST_MEMORIES)
        raise InputError(f"--memory {memory!r} is not a kind of host memory; there are {kinds}")
    default = CaseOptions()
    size_bytes = default.bytes if size is None else parse_size(size)
    if buffer_mib is not None:
        size_bytes = buffer_mib << 20
    return CaseOptions(size_bytes, Memory(memory), node, pairs)


def _show(
    run: Run, *, form: str, json: bool, csv: bool, strict: bool, mean: bool, verbose: bool
) -> None:
    from lanescope.cli.output import show_run

    if form == "lanescope" or csv:
        show_run(run, json=json, csv=csv, strict=strict, mean=mean, verbose=verbose)
        return
    from lanescope.cli.output import write_page
    from lanescope.report.nvbandwidth_format import nvbandwidth_json, nvbandwidth_text

    write_page(run)
    make = nvbandwidth_json if json else nvbandwidth_text
    print(make(run, mean=mean, verbose=verbose), end="")
