"""Run folders: written piece by piece, so that nothing measured is ever lost.

Layout::

    manifest.json     verb, command, start, state, versions
    machine.toml      the machine, as a machine file
    results.parquet   a row for each copy of each experiment
    samples.parquet   the raw samples
    report.html       the page, when it was written
    plots/            charts as PNG and SVG, of the micro-benchmarks of TARUC

While a run goes on, ``results/`` and ``samples/`` hold a file for each experiment;
its end puts them together. Every file is written beside its place and moved there
when whole: a run that is killed leaves whole files only, and reads back.

A run that goes on after its end (`RunWriter.resumed`) has both: what was put together,
and a file for each experiment since. Where both hold an experiment, the file counts.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lanescope.codec.atomic import (
    PART,
    replace_when_written,
    sync_folder,
    write_atomically,
    writing_to,
)
from lanescope.codec.files import fields_of
from lanescope.experiment.taruc.suite import SUITE
from lanescope.kinds import StrPath
from lanescope.machine.files import dumps_machine
from lanescope.measurement.result import Result, Source
from lanescope.run.decode import read_results, require_whole_cases
from lanescope.run.folders import require_new
from lanescope.run.lock import lock_folder
from lanescope.run.manifest import MACHINE as MACHINE
from lanescope.run.manifest import MANIFEST as MANIFEST
from lanescope.run.manifest import read_manifest
from lanescope.run.older import put_right
from lanescope.run.rows import rows_of
from lanescope.run.run import SCHEMA_VERSION, Manifest, Run, State

if TYPE_CHECKING:
    import pyarrow as pa

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
            if not (folder.is_dir() and _is_bare(folder)):
                require_new(folder, resumable=manifest.verb == SUITE)
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
                _write_table(self.folder / part / number, make(pending), inner=2)
        self._pending.clear()
        self._stored = time.monotonic()

    def finish(self, state: State) -> Run:
        """Put the parts together, set the final state and return the run."""
        results = list(self._results.values())
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
    manifest = read_manifest(Manifest, folder)
    machine = manifest.machine
    parts = sorted((folder / "results").glob("*.parquet"), key=_number)
    since: dict[str, Result] = {}
    for path in parts:
        found = read_results(path, folder / "samples" / path.name, machine, inner=2)
        since |= {result.experiment.name: result for result in found}
    results = since
    if _whole(folder, "results").exists():
        # without those measured again, whose samples may already be put together
        paths = (_whole(folder, "results"), _whole(folder, "samples"))
        before = read_results(*paths, machine, without=since.keys())
        results = {result.experiment.name: result for result in before} | since
    read = tuple(results.values())
    if manifest.schema_version < SCHEMA_VERSION:
        read = tuple(put_right(machine, result) for result in read)
    run = Run(manifest, read, folder)
    with fields_of(folder / MANIFEST, "name another run"):
        require_whole_cases(manifest, run.results)
    return run


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
    left = {MACHINE, *PARTS}
    inside = list(folder.iterdir())
    begun = all(p.name in left or p.match(f".*{PART}") for p in inside)
    linked = any(p.is_symlink() for p in inside)
    return begun and not linked and not any(any(p.iterdir()) for p in inside if p.is_dir())


def _whole(folder: Path, part: str) -> Path:
    return folder / f"{part}.parquet"


def _write_table(path: Path, table: pa.Table, inner: int = 1) -> None:
    import pyarrow.parquet as pq

    def write(file: BinaryIO) -> None:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)

    replace_when_written(path, write, inner)
