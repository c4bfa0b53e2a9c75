"""Times of the points of a fit, the rounds that count, and the table that stores them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from lanescope.argument_names import command
from lanescope.codec.fields import FieldError, Positive, build
from lanescope.codec.files import fields_of
from lanescope.codec.tables import read_rows
from lanescope.prediction.points import Kind, Point
from lanescope.results.result import FloatArray, median_interval
from lanescope.units.estimate import Estimate

if TYPE_CHECKING:
    import pyarrow as pa

    from lanescope.engine.task_graph import TaskTimes

#: The table's name in the folder of a fit.
FILE = "transfers.parquet"
_TIMES = ("calls", "seconds", "held")


@dataclass(frozen=True, slots=True)
class Measured:
    """A point with its samples: seconds, of shape (runs,).

    Attributes
    ----------
    calls, seconds, held
        As `lanescope.engine.task_graph.TaskTimes` has them.
    round
        In which round over all points, counted from 0.
    """

    point: Point
    calls: FloatArray
    seconds: FloatArray
    held: FloatArray | None = None
    round: int = 0

    @classmethod
    def of(cls, point: Point, times: TaskTimes, round_: int = 0) -> Measured:
        """Join a point with what was measured of it."""
        return cls(point, times.calls, times.seconds, times.held, round_)

    @property
    def whole(self) -> Estimate:
        """Median of the time until the host had seen the end."""
        return median_of(self.seconds)


def median_of(seconds: FloatArray) -> Estimate:
    """Return the median with its 95 % interval; of fewer than six samples, their range."""
    low, high = median_interval(seconds)
    middle = float(np.median(seconds))
    return Estimate(middle, min(low, middle), max(high, middle))


def write_measured(measured: Sequence[Measured], file: BinaryIO) -> None:
    """Write all samples: a row for each point, its samples as lists of seconds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            **dataclasses.asdict(one.point),
            "round": one.round,
            **{name: getattr(one, name) for name in _TIMES},
        }
        for one in measured
    ]
    table = pa.Table.from_pylist(rows, schema=_schema())

    pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def read_measured(path: Path) -> tuple[Measured, ...]:
    """Read what `write_measured` wrote.

    Raises
    ------
    InputError
        If the file is not such a table.
    """
    with fields_of(path, f"run {command('model fit')} again"):
        return tuple(_measured(row, number) for number, row in enumerate(read_rows(path)))


@dataclass(frozen=True, slots=True)
class _Times:
    """The samples of a stored row."""

    calls: tuple[float, ...]
    seconds: tuple[Positive, ...]
    held: tuple[float, ...] | None
    round: int = 0


def _measured(row: dict[str, Any], number: int) -> Measured:
    own = {key: row.pop(key) for key in (*_TIMES, "round") if key in row}
    times = build(_Times, own, "rows", number)
    point = build(Point, row, "rows", number)
    count = len(times.seconds)
    held = count if times.held is None else len(times.held)
    if not count or (len(times.calls), held) != (count, count):
        raise FieldError("it has no times, or not as many of each kind", "seconds", "rows", number)
    return Measured(
        point,
        np.array(times.calls, np.float64),
        np.array(times.seconds, np.float64),
        None if times.held is None else np.array(times.held, np.float64),
        times.round,
    )


def _schema() -> pa.Schema:
    import pyarrow as pa

    whole = {"h2d_bytes": pa.int64(), "d2h_bytes": pa.int64(), "streams": pa.int32()}
    arrays = {name: pa.int32() for name in ("reads", "writes", "work")}
    # Single precision keeps a ten-millionth of a time.
    times = {name: pa.list_(pa.float32()) for name in _TIMES}
    of_point = {"kind": pa.string(), **whole, **arrays, "held_out": pa.bool_()}
    return pa.schema({**of_point, "round": pa.int32(), **times})


#: Rounds whose medians differ by no more agree.
SETTLED = 0.03
_ENOUGH = 2


def is_settled(rounds: Sequence[Measured]) -> bool:
    """Whether two rounds of a point agree with the fastest."""
    return len(_agreeing(rounds)) >= _ENOUGH


def settle(measured: Iterable[Measured]) -> tuple[Measured, ...]:
    """Return one entry for each point, with the samples of the rounds that agree.

    A round counts if its median is within `SETTLED` of the fastest round's: whatever happens
    besides takes time, and none gives any.
    """
    return tuple(_joined(_agreeing(rounds)) for rounds in _by_point(measured).values())


def unsettled(measured: Iterable[Measured]) -> tuple[Point, ...]:
    """Return the points of several rounds no two of which agree."""
    return tuple(
        point
        for point, rounds in _by_point(measured).items()
        if len(rounds) >= _ENOUGH and not is_settled(rounds)
    )


def disturbed(measured: Iterable[Measured]) -> int:
    """Return how many rounds do not count, of all points together."""
    return sum(len(r) - len(_agreeing(r)) for r in _by_point(measured).values())


def _by_point(measured: Iterable[Measured]) -> dict[Point, list[Measured]]:
    found: dict[Point, list[Measured]] = {}
    for one in measured:
        found.setdefault(one.point, []).append(one)
    return found


def _agreeing(rounds: Sequence[Measured]) -> list[Measured]:
    if rounds[0].point.kind is Kind.PIN:  # depends on what the system has at hand: all count
        return list(rounds)
    medians = [float(np.median(one.seconds)) for one in rounds]
    most = min(medians) * (1 + SETTLED)
    return [one for one, median in zip(rounds, medians, strict=True) if median <= most]


def _joined(rounds: Sequence[Measured]) -> Measured:
    held = [one.held for one in rounds if one.held is not None]
    return Measured(
        rounds[0].point,
        _all(one.calls for one in rounds),
        _all(one.seconds for one in rounds),
        _all(held) if held else None,
        rounds[0].round,
    )


def _all(parts: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate(list(parts))
