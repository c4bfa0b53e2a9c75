"""``lanescope reproduce``: what a published study found, on this machine."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanescope.cli.options import Excludes, combines, flag, option, part_option
from lanescope.errors import InputError, MissingPartError
from lanescope.units.values import Folder, Sizes, Whole, Words

if TYPE_CHECKING:
    from lanescope.machine import Machine
    from lanescope.studies.pcie_thesis.carry_out import Progress
    from lanescope.studies.pcie_thesis.reproduction import Program, ReproductionFolder, Turn
    from lanescope.studies.pcie_thesis.results import ReproductionResults

STUDIES = ("pcie-thesis",)


def _program_names() -> Sequence[str]:
    from lanescope.studies.pcie_thesis.reproduction import NAMES

    return NAMES


@combines(Excludes("--quick", ("--repetitions",), "is one repetition"))
def reproduce(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="pcie-thesis is the only one.")],
    programs: Annotated[
        Any,
        option(
            Words("--programs", _program_names),
            "Some of vector-add, matmul, concurrent-copies and load-with-copies, with commas "
            "between; default: all.",
            metavar="NAMES",
        ),
    ] = None,
    sizes: Annotated[
        Any,
        option(
            Sizes("--sizes"), "Of vector-add's vectors; default: 25MB to 400MB.", metavar="SIZES"
        ),
    ] = None,
    repetitions: Annotated[
        int,
        option(
            Whole("--repetitions", 1, 1000, "each takes minutes"),
            "How often everything is run, in turns.",
            shown="3",
        ),
    ] = 3,
    quick: Annotated[bool, flag("--quick", "One repetition.")] = False,
    gpu: Annotated[int, part_option("--gpu", "The GPU.", "0")] = 0,
    out: Annotated[Path | None, option(Folder("--out"), "The folder; default: a new one.")] = None,
) -> None:
    """Run a study's experiments on this machine and write one page of what they show.

    pcie-thesis: chapters 4 and 5 of Qi, Analysis of data movements over the PCIe bus, 2022, and
    its outlook. Each program runs unwatched, with all sources at once, and with a probe that
    fills the link, in turns. Ctrl-C ends it: the page is made of what was done by then.
    """
    from lanescope.machine import discover
    from lanescope.studies.pcie_thesis.carry_out import carry_out
    from lanescope.studies.pcie_thesis.reproduction import programs_for, turns

    if study not in STUDIES:
        raise InputError(f"there is no study {study!r}; use {', '.join(STUDIES)}")
    chosen = programs_for(*_named(programs, sizes))
    times = 1 if quick else repetitions
    turns(chosen, times)
    machine = discover()
    _require_gpu(machine, gpu)
    folder = _folder(machine, gpu, times, chosen, out)
    with _progress() as progress:
        ended = carry_out(folder, progress)
    results, page = write_page(folder.folder, numbers=True)
    _print(results, page)
    if ended == signal.SIGINT:
        raise KeyboardInterrupt
    if ended is not None:
        raise SystemExit(128 + ended)
    if not results.programs:
        raise InputError(f"no program could be run: {'; '.join(results.reproduction.asked.notes)}")


def write_page(
    folder: Path, page: Path | None = None, *, numbers: bool = False, static: bool = False
) -> tuple[ReproductionResults, Path]:
    """Write the page of a stored reproduction.

    Parameters
    ----------
    page
        Where the page goes; None is into the folder.
    numbers
        Whether to write its numbers into the folder, too.
    static
        Whether the page has no script, so that it can be mailed.

    Raises
    ------
    InputError
        If it cannot be read or written.
    """
    import json

    from lanescope.codec.files import write_text
    from lanescope.store.store import PAGE
    from lanescope.studies.pcie_thesis.document import chapters_page_html
    from lanescope.studies.pcie_thesis.evaluate import evaluate
    from lanescope.studies.pcie_thesis.reproduction import CHAPTERS, read_reproduction
    from lanescope.studies.pcie_thesis.results import reproduction_json

    results = evaluate(read_reproduction(folder))
    if numbers:
        text = json.dumps(reproduction_json(results), indent=1) + "\n"
        write_text(folder / CHAPTERS, text, inner=1)
    page = page or folder / PAGE
    inner = int(page.parent == folder)
    write_text(page, chapters_page_html(results, static=static), inner)
    return results, page


def _named(
    programs: Sequence[str] | None, sizes: Sequence[int] | None
) -> tuple[Sequence[str], Sequence[str]]:
    from lanescope.studies.pcie_thesis.reproduction import NAMES, SIZES

    chosen = NAMES if programs is None else programs
    if sizes is not None and "vector-add" not in chosen:
        raise InputError("--sizes are vector-add's, which --programs leaves out; name it, too")
    return chosen, SIZES if sizes is None else [str(size) for size in sizes]


def _require_gpu(machine: Machine, gpu: int) -> None:
    found = next((one for one in machine.gpus if one.index == gpu), None)
    if found is None:
        have = ", ".join(one.id for one in machine.gpus)
        there = f"here are {have}" if have else "the driver knows none here: look at nvidia-smi"
        raise MissingPartError(f"there is no GPU {gpu} to run the programs on; {there}")
    if found.unavailable is not None:
        raise InputError(f"{found.id} cannot be used: {found.unavailable}")


def _folder(
    machine: Machine, gpu: int, repetitions: int, programs: tuple[Program, ...], out: Path | None
) -> ReproductionFolder:
    from lanescope._version import __version__
    from lanescope.store.folder import new_run_folder
    from lanescope.studies.pcie_thesis.reproduction import (
        REPRODUCE,
        ReproductionFolder,
        ReproductionRequest,
    )

    command = shlex.join(["lanescope", *sys.argv[1:]])
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    asked = ReproductionRequest(command, started, __version__, machine, gpu, repetitions, programs)
    return ReproductionFolder(out or new_run_folder(REPRODUCE), asked)


def _print(results: ReproductionResults, page: Path) -> None:
    from lanescope.cli.output import print_blocks
    from lanescope.studies.pcie_thesis.document import overview

    print_blocks(overview(results))
    for note in results.reproduction.asked.notes:
        print(note, file=sys.stderr)
    print(f"page: {page}\nrun:  {results.reproduction.folder}", file=sys.stderr)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show which run goes on where standard error is a terminal; be quiet otherwise."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    from lanescope.cli.output import console

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=console(error=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(turn: Turn, number: int, total: int) -> None:
            bar.update(task, description=turn.title, completed=number - 1, total=total)

        yield show
