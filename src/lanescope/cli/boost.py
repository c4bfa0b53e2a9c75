"""``lanescope boost``: an unmodified program, with its copies of pageable memory carried."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.options import Excludes, combines, flag, option, size_option
from lanescope.cli.own_process import ProgramEnded
from lanescope.errors import LanescopeError
from lanescope.units.values import File, OneOf, Whole

if TYPE_CHECKING:
    from lanescope.boosting.running import Boosted, BoostOptions, BoostTurns


@combines(
    Excludes("--dry-run", ("--always",), "carries nothing, and --always carries all"),
    Excludes("--dry-run", ("--turns",), "carries nothing that would gain"),
)
def boost(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGUMENTS]...", help="What to run.")
    ] = None,
    threads: Annotated[
        int | None,
        option(
            Whole("--threads", 1, 64, "more copy no faster"),
            "Threads that copy; default: three of four CPUs near the GPU, 12 at most, and nothing "
            "is carried where there are less than four CPUs.",
        ),
    ] = None,
    ring: Annotated[
        int,
        size_option(
            "--ring",
            "Pinned memory of each process, at most, which grows with its copies.",
            shown="256MiB",
            least=8 << 20,
            most=4 << 30,
        ),
    ] = 256 << 20,
    from_size: Annotated[
        int, size_option("--from", "Least copies that are carried.", shown="256KiB", least=64 << 10)
    ] = 256 << 10,
    only: Annotated[
        str | None,
        option(
            OneOf("--only", lambda: ("h2d", "d2h")),
            "Carry copies to GPUs, or from them, alone.",
            metavar="h2d|d2h",
        ),
    ] = None,
    always: Annotated[
        bool,
        flag("--always", "Carry what can be, and do not compare with the driver's own copies."),
    ] = False,
    dry_run: Annotated[
        bool, flag("--dry-run", "Carry nothing, and say what would be carried.")
    ] = False,
    batch: Annotated[
        bool,
        flag(
            "--batch",
            "Gather small asynchronous copies to GPUs that follow each other in one stream, and "
            "issue them together.",
        ),
    ] = False,
    turns: Annotated[
        int,
        option(
            Whole("--turns", 0, 1000, "each runs the program twice"),
            "Then run the program N times more with and without, in turns, and tell what the boost "
            "gains; what it prints then is dropped.",
            shown="0",
        ),
    ] = 0,
    json: Annotated[
        Path | None,
        option(File("--json", (".json",)), "Write what became of its copies there as JSON."),
    ] = None,
    quiet: Annotated[bool, flag("--quiet", "Say nothing at the end.", "-q")] = False,
) -> None:
    """Run a program, unchanged, with its large copies of pageable memory carried faster.

    Several threads and a ring of pinned memory copy between memory that is not pinned and GPUs;
    copies that gain nothing by it go by the driver. Its input, output and exit code stay its own;
    what was carried goes to standard error.
    """
    from lanescope.boosting.running import BoostOptions, run_boosted
    from lanescope.watching.launcher import program_environment, resolve_command

    environment = program_environment()
    command = resolve_command(program or (), environment)
    options = BoostOptions(threads, ring, from_size, only, always, dry_run, batch)
    done = run_boosted(command, environment, options)
    try:
        measured = None
        if turns and done.tally is not None and done.outcome.exit_code == 0:
            from lanescope.boosting.running import take_turns

            measured = take_turns(command, environment, options, turns)
        _tell(done, options, json, measured, quiet=quiet)
    except (LanescopeError, OSError) as error:  # the program's exit code is its own
        print(f"lanescope: {error}", file=sys.stderr)
    raise ProgramEnded(done.outcome.exit_code)


def _tell(
    done: Boosted,
    options: BoostOptions,
    json: Path | None,
    turns: BoostTurns | None,
    *,
    quiet: bool,
) -> None:
    from lanescope.boosting.tally import as_dict, lines_of

    if done.tally is None:
        if not quiet:
            print(f"lanescope boost: {done.unable}", file=sys.stderr)
        if json is not None:
            _write({"unable": done.unable}, json)
        return
    if not quiet:
        lines = lines_of(
            done.tally,
            from_bytes=options.from_bytes,
            dry_run=options.dry_run,
            batch=options.batch,
        )
        if turns is not None and turns.plain:
            lines.append(turns.text())
        print("\n".join(f"lanescope boost: {line}" for line in lines), file=sys.stderr)
    if json is not None:
        found = as_dict(done.tally, from_bytes=options.from_bytes, dry_run=options.dry_run)
        if turns is not None:
            found["turns"] = {"plain_seconds": turns.plain, "boosted_seconds": turns.boosted}
        _write(found, json)


def _write(found: dict[str, object], path: Path) -> None:
    from json import dumps

    from lanescope.codec.files import write_text

    write_text(path, dumps(found, indent=2) + "\n")
