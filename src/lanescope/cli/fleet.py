"""``lanescope fleet``: check many nodes, and name the bad parts."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.node import DEFAULT_WITHIN_NS
from lanescope.cli.options import (
    NOT_STORED,
    WITHIN,
    BusyOption,
    Excludes,
    ExpectGpusOption,
    ExpectOption,
    Needs,
    NoStoreOption,
    StrictOption,
    combines,
    flag,
    option,
)
from lanescope.units.values import File, Folder, InFile, OneOf

if TYPE_CHECKING:
    from lanescope.fleet.report import FleetReport

JsonOption = Annotated[bool, flag("--json", "Print the report as JSON.")]


RacksOption = Annotated[
    Path | None,
    option(
        InFile("--racks"),
        "Slurm's topology.conf, or lines 'NODE RACK'; default: by the nodes' names.",
    ),
]


def _formats() -> list[str]:
    from lanescope.operators import FleetFormat

    return list(FleetFormat)


FormatOption = Annotated[
    str | None,
    option(
        OneOf("--format", _formats),
        "jsonl (an object in a line for each node), suspects (names of nodes with a fault), slurm "
        "(the same with a reason each) or prometheus (for node_exporter's text files).",
    ),
]
ToOption = Annotated[
    Path | None,
    option(File("--to", ()), "Write what --format says to this file, whole or not at all."),
]
_ONE_FORM = Excludes("--json", ("--format",), "is a format of its own")
_TO = Needs(("--to",), ("--format",), "is where a format goes")


def _plans() -> list[str]:
    from lanescope.fleet.pairs import PairPlan

    return [plan for plan in PairPlan if plan]


def _media() -> list[str]:
    from lanescope.fleet.media import Medium

    return [one for one in Medium if one is not Medium.RDMA]


@combines(
    NOT_STORED,
    Needs(("--over",), ("--pairs",), "is what pairs exchange data through"),
    Needs(("--resume",), ("--out",), "goes on with a check that is stored"),
    _ONE_FORM,
    _TO,
)
def check(
    within: Annotated[
        int | None,
        option(
            WITHIN,
            "For each node, as of 'lanescope node'; the report is there 15 s later, and 50 ms for "
            "each rank.",
            metavar="TIME",
            shown="1min",
        ),
    ] = None,
    expect: ExpectOption = None,
    expect_gpus: ExpectGpusOption = None,
    out: Annotated[
        Path | None,
        option(
            Folder("--out"),
            "A new folder that all nodes see: each node's report and run. Several nodes need it to "
            "be stored; default for one: a new run folder.",
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        option(
            OneOf("--pairs", _plans),
            "Have pairs of nodes exchange data over the network, too: all (N - 1 rounds), sample "
            "(a few partners each, by rack), bisection (log2 N rounds), opposite (one round); "
            "default: none.",
            metavar="PLAN",
        ),
    ] = None,
    over: Annotated[
        str | None,
        option(
            OneOf("--over", _media),
            "What pairs exchange it through: host memory by MPI (host), the first GPU of each "
            "through host memory by MPI (gpu), or every GPU with its counterpart by NCCL (nccl).",
            metavar="MEDIUM",
            shown="host",
        ),
    ] = None,
    racks: RacksOption = None,
    history: Annotated[
        Path | None,
        option(
            File("--history", ()),
            "Compare each node with its own earlier runs in this history, and add these: see "
            "'lanescope history'.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        flag(
            "--resume",
            "Go on with the check that --out names: only nodes that have no report, or none with "
            "numbers, are measured.",
        ),
    ] = False,
    no_store: NoStoreOption = False,
    allow_busy: BusyOption = False,
    json: JsonOption = False,
    format: FormatOption = None,
    to: ToOption = None,
    strict: StrictOption = False,
) -> None:
    """Check every node at once and say what is wrong with which, the worst first.

    Start it with one process a node: srun lanescope fleet check --out DIR, or mpirun. Every node
    checks itself as 'lanescope node' does; configurations and rates are compared with those of the
    other nodes. Exit code of the first process: 0 nothing is wrong, 1 a part is slow, 4 a node is
    not as --expect says, and with --strict 3 where a node was not measured and 5 where it is busy.
    """
    from lanescope import interruption
    from lanescope.codec.files import read_text
    from lanescope.errors import LanescopeError
    from lanescope.fleet.check import FleetRequest, check_fleet
    from lanescope.fleet.media import Medium
    from lanescope.fleet.pairs import PairPlan
    from lanescope.fleet.ranks import ranks_here
    from lanescope.store.folder import new_or_temporary_folder
    from lanescope.studies.node import Request, node_arguments, require_time

    began = interruption.began_at()
    ranks = ranks_here()
    seconds = (DEFAULT_WITHIN_NS if within is None else within) * 1e-9
    require_time(seconds)
    arguments = node_arguments(expect, expect_gpus, allow_busy=allow_busy)
    request = Request(seconds, arguments, time.monotonic() if began is None else began)
    if out is None and not no_store and ranks.size == 1:
        out, _ = new_or_temporary_folder("fleet")
    try:
        topology = None if racks is None else read_text(racks)
        plan = PairPlan(pairs or PairPlan.NONE)
        medium = Medium(over or Medium.HOST)
        wanted = FleetRequest(request, out, plan, medium, topology, history, resume)
        report = check_fleet(wanted, ranks)
    except LanescopeError as error:
        ranks.give_up(error)
        raise
    if report is None:
        ranks.leave(0, complete=True)
        return
    code = _show(report, out, json=json, form=format, to=to, strict=strict)
    sys.stdout.flush()
    ranks.leave(code, complete=report.all_answered)
    raise typer.Exit(code)


@combines(_ONE_FORM, _TO)
def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="What --out of a check named; or a folder of reports of nodes, each written by "
            "'lanescope node --format json --to DIR/NODE.json'.",
        ),
    ],
    json: JsonOption = False,
    format: FormatOption = None,
    to: ToOption = None,
    strict: StrictOption = False,
) -> None:
    """Report what the ranks of a check have written, also where the job was ended.

    Writes the page again; exit codes are those of the check.
    """
    from lanescope.fleet.check import report_of_folder

    found = report_of_folder(folder)
    raise typer.Exit(_show(found, folder, json=json, form=format, to=to, strict=strict))


@combines(_ONE_FORM, _TO)
def import_results(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="What nccl-tests or a bandwidth test of perftest printed, each between two nodes; "
            "files of perftest are called HOST--HOST.txt. Or folders of such files.",
        ),
    ],
    out: Annotated[
        Path | None, option(Folder("--out"), "A new folder for the report and its page.")
    ] = None,
    racks: RacksOption = None,
    json: JsonOption = False,
    format: FormatOption = None,
    to: ToOption = None,
) -> None:
    """Read results of nccl-tests or perftest, and say which node, rack or link is slow.

    All files are of one test; of several sizes the largest counts. They are judged as pairs of
    'lanescope fleet check' are: exit code 1 where one is slow, or bytes were wrong.
    """
    from lanescope.codec.files import read_text
    from lanescope.fleet.check import report_of_pairs
    from lanescope.fleet.exchange import imported
    from lanescope.report.format import count_text

    test, rates = imported(files)
    topology = None if racks is None else read_text(racks)
    found = report_of_pairs(rates, topology, out)
    print(f"{test}: {count_text(len(found.pairs), 'pair')}", file=sys.stderr)
    raise typer.Exit(_show(found, out, json=json, form=format, to=to, strict=False))


def _show(
    report: FleetReport,
    out: Path | None,
    *,
    json: bool,
    form: str | None,
    to: Path | None,
    strict: bool,
) -> int:
    if json:
        print(report.as_json(), end="")
    elif form is not None:
        from lanescope.codec.files import write_text
        from lanescope.operators import FleetFormat, fleet_text

        text = fleet_text(report, FleetFormat(form))
        if to is None:
            print(text, end="")
        else:
            write_text(to, text)
    else:
        from lanescope.cli.output import print_blocks
        from lanescope.document.blocks import Text

        print_blocks([Text(report.headline), *report.blocks()])
    if out is not None:
        print(_written(out, report), file=sys.stderr)
    return report.exit_code(strict=strict)


def _written(folder: Path, report: FleetReport) -> str:
    """Write a report and its page into its folder; return where the page is, or why there is none.

    What the nodes have written is there: a page that cannot be is no failure.
    """
    from lanescope.errors import InputError
    from lanescope.fleet.folder import write_report

    try:
        return f"page: {write_report(folder, report)}"
    except InputError as error:
        return f"no page: {str(error).removesuffix('; name another place')}"
