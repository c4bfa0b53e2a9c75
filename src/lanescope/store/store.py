"""Runs of copies: written piece by piece, so that nothing measured is ever lost.

Layout, beside what each run folder has (folder.py)::

    results.parquet   a row for each copy of each experiment
    samples.parquet   the raw samples
    report.html       the page, when it was written
    plots/            charts as PNG and SVG, of the micro-benchmarks of TARUC

While a run goes on, ``results/`` and ``samples/`` hold a file for each experiment;
its end puts them together.

A run that goes on after its end (`RunWriter.resumed`) has both: what was put together,
and a file for each experiment since. Where both hold an experiment, the file counts.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lanescope.codec.files import fields_of, sync_folder, writing_to
from lanescope.errors import InputError
from lanescope.kinds import StrPath
from lanescope.results import Result, Source
from lanescope.store.decode import put_right, read_results, require_whole_cases
from lanescope.store.folder import MANIFEST as MANIFEST
from lanescope.store.folder import (
    SCHEMA_VERSION,
    RunFolder,
    State,
    find_run,
    is_there,
    read_manifest,
    verb_of,
)
from lanescope.store.run import COLUMNS, Manifest, Run, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

PAGE = "report.html"
PLOTS = "plots"
#: Samples first: they are put together first, and results without them would not read.
PARTS = ("samples", "results")
#: So long a prediction waits for others to share its files.
_UNSTORED_SECONDS = 1.0

#: Verbs whose folders hold other things than results of paths.
_NO_PATHS = ("watch", "reproduce")


class RunWriter:
    """Writes one run folder.

    Raises
    ------
    InputError
        From any method, if the folder cannot be written.
    """

    def __init__(self, folder: Path, manifest: Manifest, resumable: bool = False) -> None:
        opened = RunFolder.begin(folder, manifest.verb, manifest, resumable=resumable)
        self._begin(opened, manifest, {})

    @classmethod
    def resumed(cls, run: Run) -> RunWriter:
        """Go on with a run that was read from its folder; what it holds stays there."""
        assert run.folder is not None, "only a stored run goes on"
        writer = cls.__new__(cls)
        manifest = dataclasses.replace(run.manifest, state=State.RUNNING)
        opened = RunFolder(run.folder, manifest.verb)
        writer._begin(opened, manifest, {r.experiment.name: r for r in run.results})
        opened.update(manifest)
        return writer

    def _begin(self, opened: RunFolder, manifest: Manifest, results: dict[str, Result]) -> None:
        self._opened, self.folder = opened, opened.path
        self._manifest = manifest
        self._results = results
        self._pending: dict[str, Result] = {}
        self._stored = time.monotonic()
        with writing_to(self.folder):
            for part in PARTS:
                (self.folder / part).mkdir(exist_ok=True)
            numbers = (path.stem for path in self.folder.glob("*/*.parquet"))
            taken = [int(number) for number in numbers if number.isdigit()]
        self._number = max(taken, default=0)

    def add(self, result: Result) -> None:
        """Store a result with its samples; it takes the place of one of the same name.

        What was measured is on the disk on return, a prediction within a second or so.
        """
        self.add_all([result])

    def add_all(self, results: Sequence[Result]) -> None:
        """Store results at once; see `add`."""
        if not results:
            return
        found = {result.experiment.name: result for result in results}
        self._results |= found  # first: an interruption finds them here
        self._pending |= found
        now = time.monotonic()
        predicted = all(result.source is Source.PREDICTED for result in results)
        if predicted and now - self._stored < _UNSTORED_SECONDS:
            return
        self._number += 1
        number = f"{self._number:04d}.parquet"
        pending = list(self._pending.values())
        self._opened.write(f"samples/{number}", _parquet(_samples_table(pending)))
        self._opened.write(f"results/{number}", _parquet(_results_table(pending), small=True))
        self._pending.clear()
        self._stored = time.monotonic()

    def finish(self, state: State) -> Run:
        """Put the parts together, set the final state and return the run."""
        results = list(self._results.values())
        if results:
            for part, make in zip(PARTS, (_samples_table, _results_table), strict=True):
                self._opened.write(f"{part}.parquet", _parquet(make(results)))
        with writing_to(self.folder):
            sync_folder(self.folder)
            for part in reversed(PARTS):  # not before both are whole; no results without samples
                shutil.rmtree(self.folder / part)
        self._manifest = dataclasses.replace(self._manifest, state=state)
        self._opened.update(self._manifest)
        self.close()
        return self.run

    def close(self) -> None:
        """Let others write to the folder; what was added is there, put together or not."""
        self._opened.close()

    @property
    def run(self) -> Run:
        """The run so far."""
        return Run(self._manifest, tuple(self._results.values()), self.folder)


def read_run(folder: StrPath) -> Run:
    """Read a run, finished or not: its folder, its name in the runs folder, or ``latest``.

    Raises
    ------
    InputError
        If there is no such run, it is of another schema version, or damaged; and if it is a watch
        or of ``reproduce``, which hold no measured paths.
    """
    folder = Path(folder)
    if not is_there(folder / MANIFEST):
        folder = find_run(str(folder))
    if (verb := verb_of(folder)) in _NO_PATHS:
        raise InputError(
            f"{folder} is a run of {verb!r}, which holds no paths; name another run, or look at "
            f"this one by 'lanescope report {folder}'"
        )
    manifest = read_manifest(Manifest, folder)
    machine = manifest.machine
    parts = sorted((folder / "results").glob("*.parquet"), key=_number)
    since: dict[str, Result] = {}
    for path in parts:
        found = read_results(path, folder / "samples" / path.name, machine, inner=2)
        since |= {result.experiment.name: result for result in found}
    results = since
    # Samples are put together first, so that an end cut off there has them alone. Of a run that has
    # ended they are never without results: where these are gone, that is said where they are read.
    whole = is_there(_whole(folder, "results"))
    ended = manifest.state is not State.RUNNING
    if whole or (ended and not parts and is_there(_whole(folder, "samples"))):
        # without those measured again, whose samples may already be put together
        paths = (_whole(folder, "results"), _whole(folder, "samples"))
        before = read_results(*paths, machine, without=since.keys())
        results = {result.experiment.name: result for result in before} | since
    read = tuple(results.values())
    if manifest.schema_version < SCHEMA_VERSION:
        read = tuple(put_right(machine, result, manifest.schema_version) for result in read)
    run = Run(manifest, read, folder, was_read=True)
    with fields_of(folder / MANIFEST, "name another run"):
        require_whole_cases(manifest, run.results)
    return run


def _results_table(results: Sequence[Result]) -> pa.Table:
    import pyarrow as pa

    rows = [row.to_table() for row in rows_of(results)]
    return pa.table({name: _column([row[name] for row in rows]) for name in COLUMNS})


def _column(values: Sequence[Any]) -> pa.Array:
    """Return values as pyarrow makes them a column, told its type where that is plain.

    To find out a type pyarrow looks for dateutil; where that is not installed, each look goes
    through all folders of modules, which takes longer than all the rest.
    """
    import pyarrow as pa

    known = [value for value in values if value is not None]
    kinds = {type(value) for value in known}
    if kinds <= {tuple, list} and kinds:
        inner = {type(one) for value in known for one in value}
        kind = _plain_type(inner)
        return pa.array(values, None if kind is None else pa.list_(kind))
    return pa.array(values, _plain_type(kinds))


def _plain_type(kinds: Collection[type]) -> pa.DataType | None:
    """Return the type of a column by those of its values; None where it is not plain."""
    import pyarrow as pa

    if not kinds:
        return pa.null()
    if all(issubclass(kind, str) for kind in kinds):
        return pa.string()
    plain = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    return plain.get(next(iter(kinds))) if len(kinds) == 1 else None


def _samples_table(results: Sequence[Result]) -> pa.Table:
    import pyarrow as pa

    found = [(r.experiment.name, i, c.seconds) for r in results for i, c in enumerate(r.copies)]
    columns = {
        "experiment": pa.array([name for name, _, s in found for _ in s], pa.string()),
        "copy": pa.array([number for _, number, s in found for _ in s], pa.int32()),
        "seconds": pa.array([float(x) for _, _, s in found for x in s], pa.float64()),
    }
    return pa.table(columns)


def _number(path: Path) -> tuple[int, str]:
    return len(path.stem), path.stem  # 10000 comes after 9999


def _whole(folder: Path, part: str) -> Path:
    return folder / f"{part}.parquet"


def _parquet(table: pa.Table, *, small: bool = False) -> Callable[[BinaryIO], object]:
    """Return what writes a table; a small one, of few rows for a while, without compression."""
    import pyarrow.parquet as pq

    how: dict[str, Any] = {"compression": "zstd"}
    if small:  # of many columns: to compress each takes longer than all the rest
        how = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    return lambda file: pq.write_table(table, file, write_page_checksum=True, **how)
