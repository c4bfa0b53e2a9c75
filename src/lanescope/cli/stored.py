"""What is done with stored runs: list them, show one again, open its page, compare, remove."""

from __future__ import annotations

import json as encoder
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lanescope.cli.options import (
    ONE_FORMAT,
    CsvOption,
    Excludes,
    IndexOption,
    JsonOption,
    StrictOption,
    combines,
    flag,
    option,
)
from lanescope.cli.own_process import ProgramEnded
from lanescope.errors import ExitCode, InputError
from lanescope.units.values import Duration, Percent, Whole

if TYPE_CHECKING:
    from lanescope.store.run import Run
    from lanescope.trace.run import WatchRun

RunArgument = Annotated[str, typer.Argument(help="A run's folder or name, or 'latest'.")]
_DAY_NS = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run as the list shows it; fields that its manifest has not are empty."""

    name: str
    verb: str
    started: str
    state: str
    machine: str
    folder: Path

    @property
    def bytes(self) -> int:
        """What its files take on the disk, but for those that go meanwhile."""
        total = 0
        for place, _, names in os.walk(self.folder):
            for name in names:
                with suppress(FileNotFoundError):
                    total += os.lstat(os.path.join(place, name)).st_size
        return total

    @property
    def moment(self) -> datetime | None:
        """When it began; None where its manifest does not tell."""
        try:
            return datetime.fromisoformat(self.started).astimezone()
        except (ValueError, OverflowError):
            return None

    @property
    def order(self) -> tuple[float, float]:
        """Grows from run to run: when it began, and of one second when it was written last."""
        began = -inf if self.moment is None else self.moment.timestamp()
        try:
            return began, os.lstat(self.folder / "manifest.json").st_mtime
        except OSError:  # removed meanwhile
            return began, -inf


def runs(json: JsonOption = False) -> None:
    """List the runs of the runs folder, the latest first.

    ``lanescope show NAME`` prints one again, ``lanescope open NAME`` shows its page.
    """
    from lanescope.cli.output import console
    from lanescope.document.blocks import Column, Group, Kind, Table
    from lanescope.report.terminal import TableOrLines
    from lanescope.store.folder import default_runs_folder

    found = _latest_first()
    if json:
        print(encoder.dumps([{**_fields(one), "folder": str(one.folder)} for one in found]))
        return
    if not found:
        print(f"no runs in {default_runs_folder()}; 'lanescope check' makes one")
        return
    columns = [Column(name) for name in ("name", "started", "state", "machine")]
    rows = [(one.name, one.started[:19], one.state, one.machine, one.bytes) for one in found]
    table = Table(
        f"Runs in {default_runs_folder()}", [*columns, Column("size", Kind.BYTES)], [Group(rows)]
    )
    console().print(TableOrLines(table))


@combines(ONE_FORMAT)
def show(
    run: RunArgument = "latest",
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
) -> None:
    """Print the report of a stored run again; ends with the exit code of the run.

    Captures of Nsight Systems, exported to SQLite, are read, too.
    """
    from lanescope.cli.analyses import print_result
    from lanescope.cli.output import exit_code, print_blocks, print_run
    from lanescope.cli.report import is_capture
    from lanescope.store.folder import find_run
    from lanescope.store.store import read_run
    from lanescope.studies import stored_analysis
    from lanescope.studies.pcie_thesis.reproduction import (
        CHAPTERS,
        is_reproduction,
        read_reproduction,
    )
    from lanescope.trace.store import is_watch, read_watch

    if is_capture(run):
        from lanescope.trace.nsys import read_nsys

        return _show_watch(run, lambda: read_nsys(Path(run)), exports=json or csv)
    folder = find_run(run)
    if is_watch(folder):
        return _show_watch(run, lambda: read_watch(folder), exports=json or csv)
    if is_reproduction(folder):
        from lanescope.studies.pcie_thesis.document import overview
        from lanescope.studies.pcie_thesis.evaluate import evaluate

        if json or csv:
            raise InputError(f"{folder / CHAPTERS} holds the numbers of a reproduction as JSON")
        return print_blocks(overview(evaluate(read_reproduction(folder))))
    if (analysis := stored_analysis(folder)) is not None:
        if csv:
            raise InputError(f"'{analysis.verb}' has no CSV; use --json")
        found = analysis.read(folder)
        print_result(found, json=json)
        _end_as(found.exit_code)
    stored = read_run(folder)
    print_run(stored, json=json, csv=csv, strict=strict)
    _end_as(exit_code(stored, strict=strict))


def _end_as(code: int) -> NoReturn:
    """End with the exit code of a stored run: 130 says that the run was interrupted, not this."""
    if code == ExitCode.INTERRUPTED:
        sys.stdout.flush()  # now, while a failure still has a sentence
        raise ProgramEnded(code)
    raise typer.Exit(code)


def _show_watch(name: str, read: Callable[[], WatchRun], *, exports: bool) -> None:
    from lanescope.cli.output import print_blocks
    from lanescope.findings.trace import evaluate_watch
    from lanescope.studies.watch_report import watch_terminal

    if exports:
        raise InputError(
            f"{name} is a watch; 'lanescope report {name} --json' prints it as JSON, and "
            f"'lanescope report {name} --export csv' writes its copies and counters as CSV"
        )
    watched = read()
    print_blocks(watch_terminal(watched, evaluate_watch(watched)))


def open_page(run: RunArgument = "latest") -> None:
    """Open the page of a stored run in a browser; its page is made where it has none."""
    from lanescope.cli.report import report
    from lanescope.store.folder import find_run, result_place
    from lanescope.store.store import PAGE

    folder = find_run(run)
    page, _ = result_place(folder, PAGE)
    if not page.is_file():
        report(run)
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        print(f"there is no browser here; the page is {page}", file=sys.stderr)


@combines(Excludes("--keep", ("RUN",), "removes by age, and RUN by name"))
def rm(
    run: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Runs of the runs folder.")
    ] = None,
    keep: Annotated[
        int | None,
        option(
            Whole("--keep", 0, 1_000_000, "more are never there"),
            "Remove all runs but the latest N.",
        ),
    ] = None,
    older: Annotated[
        int | None,
        option(
            Duration("--older-than", 1, 3_650 * _DAY_NS, "above 0 and up to 10 years"),
            "Only runs that began longer ago, such as 30d.",
        ),
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only say what would be removed.")] = False,
) -> None:
    """Remove runs of the runs folder by name, or all but the latest ones.

    Runs elsewhere, and runs that are still written, stay.
    """
    removed = False
    for one in list(_chosen(run or [], keep, older)):
        try:
            if not _remove(one.folder, dry_run=dry_run):
                continue  # by another process meanwhile
        except _StaysError as error:
            if run:
                raise
            print(f"{one.folder.name} stays: {error}", file=sys.stderr)
            continue
        removed = True
        print(f"{'would remove' if dry_run else 'removed'} {one.folder}")
    if not removed:
        print("nothing to remove")


def compare(
    before: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="The earlier run: folder or name; or 'history': earlier runs of B's hardware.",
        ),
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="The later run: folder or name.")],
    threshold: Annotated[
        float, option(Percent("--threshold"), "Smaller effects count as none.", shown="2%")
    ] = 0.02,
    index: IndexOption = None,
    json: JsonOption = False,
) -> None:
    """Compare two runs path by path, or two watches by like copies: the effect with its interval.

    Exit code: 0 nothing got slower, 1 a path, or like copies, are slower by more than the threshold
    for certain, 2 bad input, 3 they have nothing in common that can be judged.
    """
    from lanescope.cli.output import compare_runs, compare_watches, judge_by_history
    from lanescope.fleet.folder import folders_of, records_of

    if before == "history":
        records = [one for folder in folders_of([after]) for one in records_of(folder)]
        raise typer.Exit(judge_by_history(records, index, threshold, json=json))
    watches = [_watch_named(name) for name in (before, after)]
    if watches[0] is not None and watches[1] is not None:
        raise typer.Exit(compare_watches(watches[0], watches[1], threshold, json=json))
    if watches[0] is not None or watches[1] is not None:
        one, other = (before, after) if watches[1] is None else (after, before)
        raise InputError(f"{one} is a watch and {other} is none; name two runs of one kind")
    raise typer.Exit(compare_runs(_read(before), _read(after), threshold, json=json))


def stored_runs() -> Iterator[ListedRun]:
    """Yield the runs of the runs folder; what cannot be read is shown as damaged."""
    from lanescope.codec.files import read_json
    from lanescope.store.folder import MANIFEST, default_runs_folder

    folder = default_runs_folder()
    for path in sorted(folder.glob(f"*/{MANIFEST}")) if folder.is_dir() else ():
        try:
            content: Any = read_json(path, inner=1)
        except InputError:
            content = {"state": "damaged"}
        content = content if isinstance(content, dict) else {"state": "damaged"}
        verb, started, state = (str(content.get(k, "")) for k in ("verb", "started", "state"))
        machine = _machine_name(path.parent)
        yield ListedRun(path.parent.name, verb, started, state, machine, path.parent)


def _latest_first() -> list[ListedRun]:
    return sorted(stored_runs(), key=lambda one: one.order, reverse=True)


def _fields(one: ListedRun) -> dict[str, Any]:
    return {n: getattr(one, n) for n in ("name", "verb", "started", "state", "machine", "bytes")}


def _machine_name(folder: Path) -> str:
    """The name in a run's machine file, without reading all of it."""
    from lanescope.store.folder import MACHINE

    try:
        with (folder / MACHINE).open(encoding="utf-8") as file:
            line = next((one for one in file if one.startswith("name = ")), "")
    except (OSError, UnicodeDecodeError):
        return ""
    return line.partition("=")[2].strip().strip('"')


def _chosen(names: list[str], keep: int | None, older_ns: int | None) -> Iterator[ListedRun]:
    from lanescope.store.folder import find_run

    if not names and keep is None and older_ns is None:
        raise InputError(
            "rm takes names of runs, --keep or --older-than; 'lanescope runs' lists them"
        )
    found = _latest_first()
    known = {one.name for one in found}
    for name in names:
        if name == "latest" and found and name not in known:
            latest = find_run(name).name
            raise InputError(f"rm takes a run by its name, and the latest is {latest}")
        if name not in known:
            raise InputError(
                f"there is no run {name!r} in the runs folder; 'lanescope runs' lists them"
            )
    candidates = [one for one in found if not names or one.name in names]
    for one in candidates[keep or 0 :]:
        if older_ns is None:
            yield one
        elif one.moment is not None:  # of a damaged run nobody knows it
            age = datetime.now(UTC) - one.moment
            if age.total_seconds() * 1e9 > older_ns:
                yield one


class _StaysError(InputError):
    """A run that is not removed: it is still written, or a link."""


def _remove(folder: Path, *, dry_run: bool) -> bool:
    """Remove a run; whether it was still there."""
    from lanescope.store.folder import HeldError, lock_folder
    from lanescope.trace.watch_folder import SPOOL, remove_rings

    if folder.is_symlink():
        raise _StaysError(f"{folder} is a link; remove it yourself")
    try:
        lock = lock_folder(folder)
    except HeldError:
        why = f"another lanescope writes to {folder}; remove it when that has ended"
        raise _StaysError(why) from None
    except FileNotFoundError:
        return False
    try:
        if not dry_run:
            remove_rings(folder / SPOOL)  # a killed watch's, which take shared memory
            shutil.rmtree(folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InputError(f"cannot remove {folder}: {error.strerror}") from error
    finally:
        lock.release()
    return True


def _watch_named(name: str) -> WatchRun | None:
    """Return a watch, or a capture of nsys; None for other runs."""
    from lanescope.cli.report import is_capture
    from lanescope.store.folder import find_run
    from lanescope.trace.store import is_watch, read_watch

    if is_capture(name):
        from lanescope.trace.nsys import read_nsys

        return read_nsys(Path(name))
    folder = find_run(name)
    return read_watch(folder) if is_watch(folder) else None


def _read(name: str) -> Run:
    from lanescope.store.folder import find_run
    from lanescope.store.store import read_run

    return read_run(find_run(name))
