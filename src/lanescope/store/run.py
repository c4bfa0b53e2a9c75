"""A run: what was asked, on which machine, and every result."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lanescope.calls import checked
from lanescope.codec.fields import Moment
from lanescope.copies.experiment import Case
from lanescope.errors import ExitCode, InputError
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.results.result import Result, Source
from lanescope.store.folder import SCHEMA_VERSION, State


@dataclass(frozen=True, slots=True)
@checked
class Manifest:
    """What a run folder says about itself.

    Attributes
    ----------
    verb
        ``check``, ``sweep``, ``bench``, ``copy`` and so on.
    command
        The command line, or the Python call.
    started
        ISO 8601 with the offset from UTC.
    notes
        What was done otherwise than asked for, such as a smaller size; sentences.
    cases
        Matrices that show the results; empty when the run has none.
    parameters
        Text of the parameter file of a suite, whole; None when there is none.
    missing
        How the machine differs from the expected one; a sentence each.
    unmeasured
        What there are no results of although it was to be measured; a sentence each.
    """

    verb: str
    command: str
    started: Moment
    tool_version: str
    machine: Machine
    state: State = State.RUNNING
    schema_version: int = SCHEMA_VERSION
    notes: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    parameters: str | None = None
    missing: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
@checked
class Against:
    """How a run compares with a baseline.

    Attributes
    ----------
    exit_code
        0, 1 where a path is slower for certain, 3 where nothing could be compared.
    summary
        What changed, in a sentence.
    """

    exit_code: ExitCode
    summary: str


@dataclass(frozen=True, slots=True, repr=False)
@checked
class Run:
    """A run in memory.

    Attributes
    ----------
    folder
        Where it is stored; None when it is not.
    against
        How it compares with a baseline, where it was compared; not stored.
    was_read
        Whether it was read from its folder, which may be somebody else's.
    """

    manifest: Manifest
    results: tuple[Result, ...] = field(default=())
    folder: Path | None = None
    against: Against | None = None
    was_read: bool = field(default=False, compare=False)

    @property
    def predicted(self) -> bool:
        """Whether any of its numbers is a prediction."""
        return any(r.source is Source.PREDICTED for r in self.results)

    def __repr__(self) -> str:
        from lanescope.studies.runs.outcome import outcome

        about = f"{self.manifest.verb} of {self.manifest.machine.name}, {self.manifest.state}"
        where = f", in {self.folder}" if self.folder else ""
        return f"<Run: {about}, {len(self.results)} results{where}>\n{outcome(self)}"

    def to_json(self) -> str:
        """Return everything of the run as JSON; docs/run-folder.md says what is in it."""
        from lanescope.studies.runs.export import run_json

        return run_json(self)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` with a row for each copy of each experiment.

        Its columns are those of ``results.parquet``: units stand in their names, and what is not
        known is null.
        """
        import pyarrow as pa

        from lanescope.store.rows import rows_of

        return pa.Table.from_pylist([row.to_table() for row in rows_of(self.results)])

    def to_pandas(self) -> Any:
        """Return the rows of `to_arrow` as a `pandas.DataFrame`.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        if importlib.util.find_spec("pandas") is None:
            raise InputError("to_pandas needs pandas: pip install pandas")
        return self.to_arrow().to_pandas()

    def report(self, path: StrPath | None = None) -> Path:
        """Write the run's page and return where it is.

        Parameters
        ----------
        path
            A file; None is the page in the run's folder, and of a run that was read from elsewhere
            than the runs folder a file in the current folder, ``RUN.report.html``.

        Raises
        ------
        InputError
            If it cannot be written, or the run has no folder and no path is given.
        """
        from lanescope.codec.atomic import write_text
        from lanescope.store.folders import result_place
        from lanescope.store.store import PAGE
        from lanescope.studies.runs.document import page_html

        if path is not None:
            page = Path(path)
        elif self.folder is None:
            raise InputError("this run is not stored; give a path for its page")
        else:
            page = result_place(self.folder, PAGE)[0] if self.was_read else self.folder / PAGE
        write_text(page, page_html(self), inner=int(path is None))
        return page

    def plot(self) -> Any:
        """Return the charts of the page: a notebook shows them, `save` writes files."""
        from lanescope.studies.runs.document import run_plots
        from lanescope.studies.runs.notebook import Plots

        return Plots(run_plots(self))

    def _repr_html_(self) -> str:
        from lanescope.studies.runs.notebook import run_html

        return run_html(self)


def command_line(verb: str) -> str:
    """Return what a user typed, or the Python call of a verb."""
    if Path(sys.argv[0]).name in ("lanescope", "__main__.py"):
        return shlex.join(["lanescope", *sys.argv[1:]])
    return f"lanescope.{verb}()"
