"""Run folders: written piece by piece, so that nothing measured is ever lost.

Layout::

    manifest.json     verb, command, start, state, versions
    machine.toml      the machine, as a machine file
    results.parquet   a row for each copy of each experiment
    samples.parquet   the raw samples
    report.html       the page, when it was written
    plots/            charts as PNG and SVG, of the micro-benchmarks of TARUC

While a run goes on, ``results/`` and ``samples/`` hold a file for each experiment that was
measured; its end puts them together. Predictions are many and cost nothing: a file holds
those of a second. Every file is written beside its place and moved there when whole: a run
that is killed leaves whole files only, and reads back.

A run that goes on after its end (`RunWriter.resumed`) has both: what was put together,
and files since. Where both hold an experiment, the file counts.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.errors import InputError
from lanescope.kinds import StrPath
from lanescope.machine.files import dumps_machine, load_machine
from lanescope.measurement.result import Result, Source
from lanescope.run.atomic import replace_when_written, sync_folder, write_atomically, writing_to
from lanescope.run.decode import Columns, cases_from_json, put_right, results_from_rows
from lanescope.run.lock import lock_folder
from lanescope.run.rows import Row, rows_of
from lanescope.run.run import OLDER_VERSIONS, SCHEMA_VERSION, Manifest, Run, State

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
MACHINE = "machine.toml"
PAGE = "report.html"
PLOTS = "plots"
#: Samples first: they are put together first, and results without them would not read.
PARTS = ("samples", "results")
#: So long a prediction waits for others to share its files.
_UNSTORED_SECONDS = 1.0


class RunWriter:
    """Writes one run folder.

    Raises
    ------
    InputError
        From any method, if the folder cannot be written.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        with writing_to(folder):
            if folder.exists() and (not folder.is_dir() or not _is_bare(folder)):
                held = (folder / MANIFEST).is_file()
                what = "holds a run, which --resume goes on with" if held else "is not empty"
                raise InputError(f"{folder} {what}; name an empty folder with --out")
        self._begin(folder, manifest, {})
        with writing_to(folder):
            write_atomically(folder / MACHINE, dumps_machine(manifest.machine).encode())
        self._write_manifest()

    @classmethod
    def resumed(cls, run: Run) -> RunWriter:
        """Go on with a run that was read from its folder; what it holds stays there."""
        assert run.folder is not None, "only a stored run goes on"
        writer = cls.__new__(cls)
        manifest = dataclasses.replace(run.manifest, state=State.RUNNING)
        writer._begin(run.folder, manifest, {r.experiment.name: r for r in run.results})
        writer._write_manifest()
        return writer

    def _begin(self, folder: Path, manifest: Manifest, results: dict[str, Result]) -> None:
        self.folder = folder
        self._manifest = manifest
        self._results = results
        self._pending: dict[str, Result] = {}
        self._stored = time.monotonic()
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock_folder(folder)
            for part in PARTS:
                (folder / part).mkdir(exist_ok=True)
            taken = [int(path.stem) for path in folder.glob("*/*.parquet") if path.stem.isdigit()]
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
        with writing_to(self.folder):
            for part, make in zip(PARTS, (_samples_table, _results_table), strict=True):
                _write_table(self.folder / part / number, make(pending))
        self._pending.clear()
        self._stored = time.monotonic()

    def finish(self, state: State) -> Run:
        """Put the parts together, set the final state and return the run."""
        results = list(self._results.values())
        if state is State.INTERRUPTED:  # first: whoever interrupts may not wait for the rest
            self._manifest = dataclasses.replace(self._manifest, state=state)
            self._write_manifest()
        with writing_to(self.folder):
            for part, make in zip(PARTS, (_samples_table, _results_table), strict=True):
                if results:
                    _write_table(_whole(self.folder, part), make(results))
            sync_folder(self.folder)
            for part in reversed(PARTS):  # not before both are whole; no results without samples
                shutil.rmtree(self.folder / part)
        self._manifest = dataclasses.replace(self._manifest, state=state)
        self._write_manifest()
        self.close()
        return self.run

    def close(self) -> None:
        """Let others write to the folder; what was added is there, put together or not."""
        self._lock.release()

    @property
    def run(self) -> Run:
        """The run so far."""
        return Run(self._manifest, tuple(self._results.values()), self.folder)

    def _write_manifest(self) -> None:
        m = self._manifest
        content = {
            "schema_version": m.schema_version,
            "tool_version": m.tool_version,
            "verb": m.verb,
            "command": m.command,
            "started": m.started,
            "state": str(m.state),
            "described": m.machine.described,
            "notes": m.notes,
            "cases": [dataclasses.asdict(case) for case in m.cases],
            "parameters": m.parameters,
            "missing": m.missing,
            "unmeasured": m.unmeasured,
        }
        with writing_to(self.folder):
            write_atomically(self.folder / MANIFEST, json.dumps(content, indent=2).encode())


def read_run(folder: StrPath) -> Run:
    """Read a run folder, finished or not.

    Raises
    ------
    InputError
        If it is not a run folder, of another schema version, or damaged.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder)
    parts = sorted((folder / "results").glob("*.parquet"), key=_number)
    since: dict[str, Result] = {}
    for path in parts:
        found = _read_results(path, folder / "samples" / path.name)
        since |= {result.experiment.name: result for result in found}
    results = since
    if _whole(folder, "results").exists():
        # without those measured again, whose samples may already be put together
        paths = (_whole(folder, "results"), _whole(folder, "samples"))
        before = _read_results(*paths, without=since.keys())
        results = {result.experiment.name: result for result in before} | since
    read = tuple(results.values())
    if manifest.schema_version in OLDER_VERSIONS:
        read = tuple(put_right(manifest.machine, result) for result in read)
    return Run(manifest, read, folder)


def _read_results(path: Path, samples: Path, without: Collection[str] = ()) -> list[Result]:
    try:
        rows = [row for row in _read_rows(path) if row["experiment"] not in without]
        return results_from_rows(rows, _read_columns(samples))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text())
        version = content["schema_version"]
        if version not in (SCHEMA_VERSION, *OLDER_VERSIONS):
            age = "a newer" if version > SCHEMA_VERSION else "an older"
            raise InputError(
                f"{folder} has run schema {version}, this is {SCHEMA_VERSION}; "
                f"read it with {age} lanescope ({content.get('tool_version', 'unknown')} wrote it)"
            )
        machine = load_machine(folder / MACHINE)
        return Manifest(
            verb=content["verb"],
            command=content["command"],
            started=content["started"],
            tool_version=content["tool_version"],
            machine=dataclasses.replace(machine, described=content["described"]),
            state=State(content["state"]),
            schema_version=version,
            notes=tuple(content.get("notes", ())),
            cases=cases_from_json(content.get("cases", ())),
            parameters=content.get("parameters"),
            missing=tuple(content.get("missing", ())),
            unmeasured=tuple(content.get("unmeasured", ())),
        )
    except OSError as error:
        raise InputError(f"{folder} is not a readable run folder: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged or cut short; delete it to read the rest of the run")


def _read_rows(path: Path) -> list[Row]:
    rows: list[Row] = _read_table(path).to_pylist()
    return rows


def _read_columns(path: Path) -> Columns:
    table = _read_table(path)
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _read_table(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path) from error


def _results_table(results: Sequence[Result]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(rows_of(results))


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


def _is_bare(folder: Path) -> bool:
    """Whether a folder is empty, but for what a run leaves that was killed at its very start."""
    left = {MACHINE, *PARTS, *(f".{name}.part" for name in (MACHINE, MANIFEST))}
    inside = list(folder.iterdir())
    begun = all(path.name in left for path in inside)
    return begun and not any(any(p.iterdir()) for p in inside if p.is_dir())


def _whole(folder: Path, part: str) -> Path:
    return folder / f"{part}.parquet"


def _write_table(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    replace_when_written(
        path, lambda temporary: pq.write_table(table, temporary, compression="zstd")
    )
