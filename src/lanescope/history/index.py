"""The index of the history, and when a series of it changed its level.

The index is one SQLite file, made of stored runs and made again from them. It holds nothing that
the run folders do not: where it is lost, ``lanescope history add`` makes it again.

Medians of a sound path differ from run to run by more than each run's own interval says. How much
is estimated from differences of successive runs, which a change of level moves once only, by their
median absolute value (Rousseeuw and Croux, Alternatives to the Median Absolute Deviation, 1993). A
series is cut in two where the absolute distances from both medians are least, and each part again
(binary segmentation: Scott and Knott, 1974), while the medians differ by more than chance gives in
one of so many series of normal values; of values with the tails of Student's t of 3 degrees it
gives ten times as many.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, median
from typing import Any, Self

from lanescope.errors import InputError
from lanescope.history.records import GpuRecord, HistoryRecord, Observation, ObservationUnit
from lanescope.store.folder import default_runs_folder

VERSION = 1
#: Tells SQLite files of ours from others.
_APPLICATION_ID = 0x6C616E65
#: How long another process may hold the file.
_PATIENCE_SECONDS = 10.0
#: Of series in one query: SQLite takes 999 values at least.
_MOST_NAMES = 900
_TABLES = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, began TEXT NOT NULL, verb TEXT NOT NULL,
    tool_version TEXT NOT NULL, source TEXT NOT NULL, software TEXT NOT NULL
);
CREATE TABLE devices (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    id TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, slot TEXT, vbios TEXT,
    PRIMARY KEY (run, id)
);
CREATE TABLE observations (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    series TEXT NOT NULL, label TEXT NOT NULL, devices TEXT NOT NULL,
    value REAL NOT NULL, unit TEXT NOT NULL, half_width REAL,
    PRIMARY KEY (series, run)
) WITHOUT ROWID;
CREATE INDEX observations_of_run ON observations(run);
"""
#: A level has so many runs at least: one run alone may be disturbed.
LEAST_RUNS = 2
#: Of fewer runs nothing is said: how much they differ is not known.
LEAST_HISTORY = 4
#: How many unchanged series in so many may show a change.
FALSE_ALARMS = 1e-3
#: Median absolute value to standard deviation, for a normal distribution.
_MAD_TO_SIGMA = 1.4826
#: Standard deviation of a median over that of a mean, of many normal values.
_OF_MEDIAN = 1.2533
#: Runs of a sound path differ by this at least, as a share.
_LEAST_SIGMA = 0.002
#: The deviation is taken for larger by this over the root of the number of differences, which say
#: how large it is: so false alarms stay as rare with few runs (tests/history/test_changes.py).
_UNCERTAIN = 3.0


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """An observation with the run that it is of."""

    run: str
    host: str
    began: str
    verb: str
    software: dict[str, str]
    devices: tuple[GpuRecord, ...]
    observation: Observation


@functools.lru_cache(1024)
def _parsed(text: str) -> Any:
    """Return what a JSON text holds, which many rows share: nobody changes it."""
    return json.loads(text)


def default_index() -> Path:
    """Return where the index is: ``$LANESCOPE_HISTORY``, else beside the runs folder."""
    if named := os.environ.get("LANESCOPE_HISTORY"):
        return Path(named)
    return default_runs_folder().parent / "history.sqlite"


class History:
    """An open index.

    Parameters
    ----------
    path
        The file.
    create
        Make it where it is not there.

    Raises
    ------
    InputError
        If it is not there, locked, damaged, of another program or of a newer lanescope.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._of_runs: dict[str, list[GpuRecord]] = {}
        if not create and not path.exists():
            raise InputError(f"there is no history at {path}; 'lanescope history add' begins one")
        with self._explained():
            if path.exists() and not path.is_file():  # SQLite would put a journal next to a device
                raise InputError(f"{path} is no regular file; name another with --index")
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=_PATIENCE_SECONDS)
            self._database.execute("PRAGMA foreign_keys = ON")
            # the file may be a stranger's: none of its functions and virtual tables is run
            self._database.execute("PRAGMA trusted_schema = OFF")
            self._open()

    def _open(self) -> None:
        (application,) = self._database.execute("PRAGMA application_id").fetchone()
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if (application, version) == (_APPLICATION_ID, VERSION):
            return
        if application == _APPLICATION_ID and version > VERSION:
            raise InputError(
                f"{self.path} is of a newer lanescope (format {version}; this one: {VERSION}); "
                "update lanescope, or name another file with --index"
            )
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            (tables,) = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables:  # of another program, or made by another process just now
                (now,) = self._database.execute("PRAGMA application_id").fetchone()
                if now == _APPLICATION_ID:
                    return
                raise InputError(
                    f"{self.path} is no history of lanescope; name another file with --index"
                )
            for statement in _TABLES.split(";"):
                self._database.execute(statement)
            self._database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            self._database.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite and the file system say into a sentence."""
        try:
            yield
        except sqlite3.Error as error:
            why = str(error)
            if "locked" in why:
                what = "another process is writing to it; try again"
            elif "readonly" in why or "unable to open" in why:
                what = "name a place that can be written with --index"
            else:
                what = (
                    "name another file with --index; or, if it was a history, remove it, and "
                    "'lanescope history add' makes it again from the runs"
                )
            raise InputError(f"the history {self.path}: {why}; {what}") from error
        except OSError as error:
            raise InputError(
                f"cannot write {self.path}: {error.strerror}; name another place with --index"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, record: HistoryRecord) -> bool:
        """Add a run; one that is there already is replaced. Whether it is new."""
        return self.add_all([record]) == 1

    def add_all(self, records: Iterable[HistoryRecord]) -> int:
        """Add runs, all of them or none; return how many are new."""
        with self._explained(), self._database:
            return sum([self._added(record) for record in records])

    def _added(self, record: HistoryRecord) -> bool:
        database = self._database
        head = (record.id, record.host, record.began, record.verb, record.tool_version)
        known = database.execute("SELECT 1 FROM runs WHERE id = ?", (record.id,)).fetchone()
        database.execute("DELETE FROM runs WHERE id = ?", (record.id,))
        database.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*head, record.source, json.dumps(dict(record.software))),
        )
        database.executemany(
            "INSERT INTO devices VALUES (?, ?, ?, ?, ?, ?)",
            [(record.id, d.id, d.key, d.name, d.slot, d.vbios) for d in record.devices],
        )
        database.executemany(
            "INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (record.id, o.series, o.label, json.dumps(o.devices), o.value, o.unit, o.half_width)
                for o in record.observations
            ],
        )
        return known is None

    def __len__(self) -> int:
        """How many runs it has."""
        with self._explained():
            (count,) = self._database.execute("SELECT count(*) FROM runs").fetchone()
        return int(count)

    def series(self) -> Iterator[list[SeriesPoint]]:
        """Yield the points of each series, the oldest first."""
        with self._explained():
            rows = self._database.execute(
                "SELECT r.id, r.host, r.began, r.verb, r.software, o.series, o.label, o.devices, "
                "o.value, o.unit, o.half_width FROM observations o JOIN runs r ON r.id = o.run "
                "ORDER BY o.series, r.began, r.id"
            )
            for _, group in itertools.groupby(rows, key=lambda row: row[5]):
                yield [self._point(*row) for row in group]

    def values(
        self, names: Sequence[str], before: HistoryRecord
    ) -> dict[str, list[tuple[ObservationUnit, float]]]:
        """Return the values of some series in runs before one, the oldest first."""
        found: dict[str, list[tuple[ObservationUnit, float]]] = defaultdict(list)
        with self._explained():
            for begin in range(0, len(names), _MOST_NAMES):
                some = names[begin : begin + _MOST_NAMES]
                rows = self._database.execute(
                    "SELECT o.series, o.unit, o.value FROM observations o JOIN runs r "
                    f"ON r.id = o.run WHERE o.series IN ({', '.join('?' * len(some))}) "
                    "AND r.began <= ? AND o.run != ? ORDER BY r.began, r.id",
                    (*some, before.began, before.id),
                )
                for name, unit, value in rows:
                    found[name].append((ObservationUnit(unit), value))
        return found

    def _point(  # one for each column
        self,
        run: str,
        host: str,
        began: str,
        verb: str,
        software: str,
        series: str,
        label: str,
        devices: str,
        value: float,
        unit: str,
        half_width: float | None,
    ) -> SeriesPoint:
        keys = tuple(_parsed(devices))
        observation = Observation(series, label, keys, value, ObservationUnit(unit), half_width)
        there = tuple(device for device in self._devices(run) if device.key in keys)
        return SeriesPoint(run, host, began, verb, _parsed(software), there, observation)

    def _devices(self, run: str) -> list[GpuRecord]:
        if run not in self._of_runs:
            rows = self._database.execute(
                "SELECT id, key, name, slot, vbios FROM devices WHERE run = ? ORDER BY id", (run,)
            )
            self._of_runs[run] = [GpuRecord(*row) for row in rows]
        return self._of_runs[run]


@dataclass(frozen=True, slots=True)
class StableLevel:
    """Successive runs of a series that agree.

    Attributes
    ----------
    first, end
        Numbers of its first run and of the first run behind it.
    value
        Median of its runs.
    """

    first: int
    end: int
    value: float

    @property
    def runs(self) -> int:
        """How many runs it has."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Shift:
    """From one level to the next, or to a single run.

    Attributes
    ----------
    effect
        New value over old value, less 1.
    half_width
        Half of the effect's 95 % interval.
    certain
        Whether chance gives as much in fewer than `FALSE_ALARMS` of the cases.
    """

    effect: float
    half_width: float
    certain: bool


def scatter(values: Sequence[float]) -> float:
    """Return how much runs of an unchanged path differ: a standard deviation as a share."""
    differences = [abs(math.log(b / a)) for a, b in itertools.pairwise(values)]
    if not differences:
        return math.inf
    return max(_MAD_TO_SIGMA * median(differences) / math.sqrt(2), _LEAST_SIGMA)


def levels(
    values: Sequence[float], least_effect: float = 0.02, false_alarms: float = FALSE_ALARMS
) -> list[StableLevel]:
    """Return the levels of a series of positive values, the oldest first.

    Parameters
    ----------
    least_effect
        Smaller changes, as a share, are none, however sure they are.
    false_alarms
        Share of unchanged series that may show a change.
    """
    whole = StableLevel(0, len(values), median(values))
    if len(values) < LEAST_HISTORY:
        return [whole]
    sigma = scatter(values)
    quantile = _quantile(len(values), false_alarms / (len(values) - 1))
    return _cut(values, whole, sigma, quantile, least_effect)


def shift_to(
    values: Sequence[float],
    level: StableLevel,
    value: float,
    least_effect: float = 0.02,
    false_alarms: float = FALSE_ALARMS,
) -> Shift | None:
    """Compare a new value with the level that a series has; None where it is too short."""
    if len(values) < LEAST_HISTORY:
        return None
    one = StableLevel(len(values), len(values) + 1, value)
    return _shift(
        scatter(values), level, one, _quantile(len(values) - 1, false_alarms), least_effect
    )


def shift_between(
    values: Sequence[float],
    before: StableLevel,
    after: StableLevel,
    least_effect: float = 0.02,
    false_alarms: float = FALSE_ALARMS,
) -> Shift:
    """Compare two levels of a series."""
    quantile = _quantile(len(values), false_alarms / max(len(values) - 1, 1))
    return _shift(scatter(values), before, after, quantile, least_effect)


def _cut(
    values: Sequence[float], level: StableLevel, sigma: float, quantile: float, least_effect: float
) -> list[StableLevel]:
    inside = values[level.first : level.end]
    if level.runs < 2 * LEAST_RUNS or max(inside) / min(inside) - 1 <= least_effect:
        return [level]  # no two parts of it can differ by more
    middles = range(level.first + LEAST_RUNS, level.end - LEAST_RUNS + 1)
    middle = min(middles, key=lambda m: sum(_cost(values[a:b]) for a, b in _parts(level, m)))
    before, after = (StableLevel(a, b, median(values[a:b])) for a, b in _parts(level, middle))
    if not _shift(sigma, before, after, quantile, least_effect).certain:
        return [level]
    parts = (_cut(values, part, sigma, quantile, least_effect) for part in (before, after))
    return [one for part in parts for one in part]


def _parts(level: StableLevel, middle: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (level.first, middle), (middle, level.end)


def _cost(values: Sequence[float]) -> float:
    middle = median(values)
    return sum(abs(value - middle) for value in values)


def _shift(
    sigma: float, before: StableLevel, after: StableLevel, quantile: float, least_effect: float
) -> Shift:
    variance = sum(_of_median(one.runs) / one.runs for one in (before, after))
    deviation = sigma * math.sqrt(variance)
    distance = math.log(after.value / before.value)
    effect = math.exp(distance) - 1
    certain = abs(distance) > quantile * deviation and abs(effect) > least_effect
    return Shift(effect, NormalDist().inv_cdf(0.975) * deviation * (1 + effect), certain)


def _of_median(runs: int) -> float:
    """Variance of a median over that of a mean; of one or two runs they are the same."""
    return 1.0 if runs <= 2 else _OF_MEDIAN**2


def _quantile(runs: int, false_alarms: float) -> float:
    """Return from how many deviations on a difference is none of chance.

    More where few runs say how large a deviation is.
    """
    quantile = NormalDist().inv_cdf(1 - false_alarms / 2)
    return quantile * (1 + _UNCERTAIN / math.sqrt(max(runs - 1, 1)))
