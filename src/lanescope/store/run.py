"""A run: what was asked, on which machine, every result, and all of them as flat rows.

Parquet, CSV and JSON share the rows.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lanescope.calls import checked
from lanescope.codec.fields import Moment, Positive, PositiveInt, from_attributes
from lanescope.copies import (
    Caches,
    Engine,
    Memory,
    Operation,
    Pattern,
    Purpose,
    Route,
    Submission,
    Timing,
)
from lanescope.copies.experiment import Case
from lanescope.copies.terms import PLAIN
from lanescope.errors import ExitCode, InputError
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.presenting import presenter
from lanescope.results import CopyResult, LinkEvidence, Result, Source, Status, Verdict
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
        return presenter().run_text(self)

    def to_json(self) -> str:
        """Return everything of the run as JSON; docs/run-folder.md says what is in it."""
        return presenter().run_json(self)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` with a row for each copy of each experiment.

        Its columns are those of ``results.parquet``: units stand in their names, and what is not
        known is null.
        """
        import pyarrow as pa

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
        from lanescope.codec.files import write_text
        from lanescope.store.folder import result_place
        from lanescope.store.store import PAGE

        if path is not None:
            page = Path(path)
        elif self.folder is None:
            raise InputError("this run is not stored; give a path for its page")
        else:
            page = result_place(self.folder, PAGE)[0] if self.was_read else self.folder / PAGE
        write_text(page, presenter().page_html(self), inner=int(path is None))
        return page

    def plot(self) -> Any:
        """Return the charts of the page: a notebook shows them, `save` writes files."""
        return presenter().plots_of(self)

    def _repr_html_(self) -> str:
        return presenter().run_html(self)


def command_line(verb: str) -> str:
    """Return what a user typed, or the Python call of a verb."""
    if Path(sys.argv[0]).name in ("lanescope", "__main__.py"):
        return shlex.join(["lanescope", *sys.argv[1:]])
    return f"lanescope.{verb}()"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """A copy of an experiment, measured or not.

    Columns carry their unit in their name; what is missing is None. What follows from the samples
    (``gbs``, the quantiles, ...) stands here for other readers: lanescope computes it anew. Older
    runs lack the columns that have a default.

    Attributes
    ----------
    purpose
        What the experiment is for; see `Purpose`.
    copy
        Its number in the experiment.
    path
        Source and destination in words.
    provenance
        Whether it was measured or predicted.
    executor, sms, chunk_bytes, pieces, submission
        Who carried it out, with how many multiprocessors, in which pieces.
    counted_bytes
        Payload that one repetition moves.
    half_width
        Half of the 95 % confidence interval of the median, as a share of it.
    clock_seconds
        The least that the clock tells apart.
    method
        How it was timed.
    staged
        Whether a copy between GPUs went through host memory.
    own_rate, in_turns_with, joint_gbs
        Whether it has a rate of its own, or an engine took it in turns with other copies, and
        then what they carried together.
    """

    experiment: str
    title: str
    timing: Timing
    purpose: Purpose = Purpose.PATH
    copy: int
    path: str | None = None
    provenance: Source
    source: str
    source_memory: Memory
    destination: str
    destination_memory: Memory
    engine: Engine
    operation: Operation
    cpus: tuple[int, ...]
    executor: str | None = None
    sms: int | None = None
    chunk_bytes: int | None = None
    pace_gbs: Positive | None = None
    chunk_repeats: PositiveInt | None = None
    pieces: PositiveInt = 1
    submission: Submission = Submission.SINGLE
    pattern: Pattern | None = None
    span_bytes: PositiveInt | None = None
    stride_bytes: PositiveInt | None = None
    caches: Caches = Caches.WARM
    route: Route | None = None
    bytes: PositiveInt
    counted_bytes: int | None = None
    gbs: float | None = None
    limit_gbs: Positive | None
    limit_reason: str | None
    share_of_limit: float | None = None
    n: PositiveInt | None
    median_seconds: float | None = None
    min_seconds: float | None = None
    max_seconds: float | None = None
    p5_seconds: float | None = None
    p95_seconds: float | None = None
    half_width: float | None = None
    mean_seconds: float | None = None
    stdev_seconds: float | None = None
    submit_seconds: float | None = None
    clock_seconds: float | None = None
    own_rate: bool | None = None
    in_turns_with: tuple[int, ...] | None = None
    joint_gbs: float | None = None
    verdict: Status
    reason: str
    remedy: str | None
    method: str
    staged: bool = False
    stop_reason: str | None
    stop_target: float | None
    spent_seconds: float | None
    budget_seconds: float | None
    links_seen: tuple[LinkEvidence, ...] | None = None

    def to_table(self) -> dict[str, Any]:
        """Return it as plain values by column."""
        table = {name: getattr(self, name) for name in COLUMNS}
        table["links_seen"] = [dataclasses.asdict(link) for link in self.links_seen or ()]
        return table


COLUMNS = tuple(field.name for field in dataclasses.fields(ResultRow))


#: What a copy has that was not measured.
_UNKNOWN = SimpleNamespace(limit_gbs=None, limit_reason=None, n=None, in_turns_with=())


def rows_of(results: Iterable[Result]) -> list[ResultRow]:
    """Return a row for each copy of each result, measured or not."""
    return [_row(r, number) for r in results for number in range(len(r.experiment.copies))]


def _row(result: Result, number: int) -> ResultRow:
    experiment, copy = result.experiment, result.experiment.copies[number]
    measured = result.copies[number] if result.copies else None
    verdict, stop = _verdict(result, measured), result.stop
    known = (_UNKNOWN,) if measured is None else (measured, measured.statistics)
    return from_attributes(
        ResultRow,
        *(copy.access or PLAIN, copy, experiment, verdict, result, *known),
        experiment=experiment.name,
        copy=number,
        provenance=result.source,
        source=copy.source.part,
        source_memory=copy.source.memory,
        destination=copy.destination.part,
        destination_memory=copy.destination.memory,
        verdict=verdict.status,
        stop_reason=stop.reason if stop else None,
        stop_target=stop.target if stop else None,
        spent_seconds=stop.spent_seconds if stop else None,
        budget_seconds=stop.budget_seconds if stop else None,
        joint_gbs=None if measured is None else result.joint_gbs(number),
        links_seen=result.links,
    )


def _verdict(result: Result, measured: CopyResult | None) -> Verdict:
    verdict = measured.verdict if measured is not None else result.not_measured
    assert verdict is not None, "what was not measured says why"
    return verdict
