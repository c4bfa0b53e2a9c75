"""What a probe found, small copies over a GPU's link again and again, and what these show.

They show of each direction when others used the link, and when the GPU was busy; nothing is known
of who was, only how much longer copies took than they take undisturbed. A round's copies are timed
by the host, whose own interruptions look the same: so a few slow ones are none that is told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.codec.fields import PositiveInt
from lanescope.codec.files import read_bytes
from lanescope.errors import InputError
from lanescope.trace.codes import LATEST_NS, BoolArray, FloatArray, IntArray
from lanescope.trace.spool_records import Damage, header_of, read_sidecar
from lanescope.units.sizes import bandwidth_gbs, bandwidths_gbs, binary_text

#: Names of directions; their places are the numbers in `Probe.direction`.
PROBE_DIRECTIONS = ("h2d", "d2h")
#: Bytes of the copy whose time is the delay.
DELAY_BYTES = 4
#: Undisturbed is the median of the fastest quarter: somewhere the program rests.
_FASTEST = 0.25
#: The link counts as used while a copy has less than this share of its undisturbed bandwidth.
_FALLEN = 0.6
#: A copy that takes up to so many times the undisturbed time is taken to be undisturbed.
_JITTER = 1.25
#: The GPU or its link count as busy while the delay is so many times the undisturbed one.
_RISEN = 3.0
#: So many slow copies in a row are an episode, one fast copy between two not counted; fewer are
#: where they took longer together than the host's interruptions do, which is when somebody
#: else's large copy or kernel held up a single one.
_FEWEST = 4
_BRIDGED = 1
_LONG_NS = 1_000_000
PROBE_SOURCE = "probe"
_VERSION = 1
_RECORD = np.dtype(
    [
        ("begin_ns", "<u8"),
        ("delay_ns", "<u4"),
        ("copy_ns", "<u4"),
        ("direction", "<u4"),
        ("reserved", "<u4"),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Copies over the link of one GPU, record by record: a short one, then a long one.

    Times are by the host's clock, from the call until the copy was seen to have ended.

    Attributes
    ----------
    gpu
        The machine's number of the GPU.
    chunk_bytes
        Of the long copy.
    period_ns
        From round to round, as asked for; 0 is without a pause.
    begin_ns
        Begin of the short copy, nanoseconds since 1970; it grows.
    delay_ns, copy_ns
        How long the short copy took, and the long one behind it.
    direction
        0 to the GPU, 1 from it; see `PROBE_DIRECTIONS`.
    cpu_seconds
        Processor time that the probe took; None when unknown.
    """

    gpu: int
    chunk_bytes: int
    period_ns: int
    begin_ns: IntArray
    delay_ns: IntArray
    copy_ns: IntArray
    direction: IntArray
    cpu_seconds: float | None = None

    def __len__(self) -> int:
        return int(self.begin_ns.size)

    @property
    def end_ns(self) -> IntArray:
        """End of each long copy, nanoseconds since 1970."""
        return self.begin_ns + self.delay_ns + self.copy_ns

    @property
    def gbs(self) -> FloatArray:
        """Bandwidth of each long copy in GB/s; not a number where no time passed."""
        sizes = np.full(len(self), self.chunk_bytes, np.float64)
        return bandwidths_gbs(sizes, self.copy_ns.astype(np.float64) * 1e-9)

    def rows(self, chosen: slice | BoolArray) -> Probe:
        """Return some of the records."""
        names = ("begin_ns", "delay_ns", "copy_ns", "direction")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def bytes_between(self, start_ns: int, end_ns: int) -> int:
        """Return the bytes of the records that lie between two times."""
        whole = (self.begin_ns >= start_ns) & (self.end_ns <= end_ns)
        return int(whole.sum()) * (self.chunk_bytes + DELAY_BYTES)

    def one_direction(self, direction: int) -> Probe:
        """Return the records of one direction."""
        return self.rows(self.direction == direction)

    @classmethod
    def of(cls, *, gpu: int = 0, chunk_bytes: int, period_ns: int = 0, **columns: Any) -> Probe:
        """Make one of columns that are anything numpy takes."""
        arrays: dict[str, Any] = {
            name: np.asarray(values, np.int64) for name, values in columns.items()
        }
        return cls(gpu=gpu, chunk_bytes=chunk_bytes, period_ns=period_ns, **arrays)


class Sign(Enum):
    """What an episode was seen by."""

    LINK = "link used"
    DELAY = "delay raised"


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """How long copies of one direction take while nobody else uses the link; None if unknown.

    Attributes
    ----------
    copy_ns, delay_ns
        Of the long and of the short copy.
    """

    copy_ns: float | None
    delay_ns: float | None


@dataclass(frozen=True, slots=True)
class Episode:
    """A time in which copies of one direction were held up.

    Attributes
    ----------
    start_ns, end_ns
        From the begin of the first slow record to the end of the last, since 1970.
    records
        Slow records in it.
    slowdown
        How many times the undisturbed time its slow copies took on average.
    """

    gpu: int
    direction: str
    sign: Sign
    start_ns: int
    end_ns: int
    records: int
    slowdown: float


def undisturbed(probe: Probe) -> Undisturbed:
    """Return what the fastest copies of a probe took, which holds one direction."""
    return Undisturbed(_fast(probe.copy_ns), _fast(probe.delay_ns))


def episodes(probe: Probe, direction: int) -> tuple[Episode, ...]:
    """Return when copies of one direction were held up, the earliest first."""
    own = probe.one_direction(direction)
    rest = undisturbed(own)
    signs = (
        (Sign.LINK, own.copy_ns, rest.copy_ns, 1 / _FALLEN),
        (Sign.DELAY, own.delay_ns, rest.delay_ns, _RISEN),
    )
    found: list[Episode] = []
    for sign, took, usual, factor in signs:
        if usual is not None:
            found += _episodes(own, PROBE_DIRECTIONS[direction], sign, took, usual, factor)
    return tuple(sorted(found, key=lambda episode: episode.start_ns))


def shares_and_weights(own: Probe) -> tuple[FloatArray, FloatArray]:
    """Return what share of the link each record says others used, and what it weighs.

    The probe holds one direction.
    """
    usual = undisturbed(own).copy_ns
    took = own.copy_ns.astype(np.float64)
    weights = took if own.period_ns == 0 else np.ones(len(own))
    if usual is None:
        return np.full(len(own), np.nan), weights
    shares = np.where(took > usual * _JITTER, 1.0 - usual / np.maximum(took, usual), 0.0)
    return shares, weights


def _fast(times_ns: IntArray) -> float | None:
    """Median of the fastest quarter of those in which time passed."""
    passed = times_ns[times_ns > 0]
    if passed.size == 0:
        return None
    quarter = max(int(passed.size * _FASTEST), 1)
    return float(np.median(np.partition(passed, quarter - 1)[:quarter]))


def _episodes(
    own: Probe, direction: str, sign: Sign, took: IntArray, usual: float, factor: float
) -> list[Episode]:
    slow = np.flatnonzero(took > usual * factor)
    if slow.size == 0:
        return []
    begins = np.concatenate(([0], np.flatnonzero(np.diff(slow) > _BRIDGED + 1) + 1))
    counts = np.diff(np.append(begins, slow.size))
    sums = np.add.reduceat(took[slow], begins)
    marked = np.flatnonzero((counts >= _FEWEST) | (sums - counts * usual >= _LONG_NS))
    starts = own.begin_ns[slow[begins]]
    ends = own.end_ns[slow[begins + counts - 1]]
    return [
        Episode(
            own.gpu,
            direction,
            sign,
            int(starts[i]),
            int(ends[i]),
            int(counts[i]),
            float(sums[i] / counts[i] / usual),
        )
        for i in marked
    ]


@dataclass(frozen=True, slots=True)
class ProbedDirection:
    """One direction of one GPU's link as a probe has seen it; None is unknown.

    Attributes
    ----------
    direction
        ``h2d`` or ``d2h``.
    period_ns
        From round to round, as asked for; 0 is without a pause.
    undisturbed_gbs, undisturbed_delay_seconds
        Bandwidth of a chunk, and time of 4 bytes, while nobody else uses the link.
    used_by_others
        Estimated share of the link that others used, over all of the probe.
    episodes
        When copies were held up.
    probe_bytes
        What the probe itself moved.
    probe_busy_share
        Share of the probe's time in which its own copies occupied the link.
    """

    gpu: int
    direction: str
    chunk_bytes: int
    period_ns: int
    records: int
    undisturbed_gbs: float | None
    undisturbed_delay_seconds: float | None
    used_by_others: float | None
    episodes: tuple[Episode, ...]
    probe_bytes: int
    probe_busy_share: float | None

    def seconds_of(self, sign: Sign) -> float:
        """Return how long the episodes with a sign lasted, in seconds."""
        return sum(e.end_ns - e.start_ns for e in self.episodes if e.sign is sign) * 1e-9

    def count_of(self, sign: Sign) -> int:
        """Return how many episodes have a sign."""
        return sum(e.sign is sign for e in self.episodes)


def probed_directions(probes: tuple[Probe, ...]) -> tuple[ProbedDirection, ...]:
    """Return what each probe has seen of each direction that it has copied in."""
    directions = (_direction(probe, i) for probe in probes for i in range(len(PROBE_DIRECTIONS)))
    return tuple(direction for direction in directions if direction.records)


def _direction(probe: Probe, direction: int) -> ProbedDirection:
    own = probe.one_direction(direction)
    rest = undisturbed(own)
    usual, delay = rest.copy_ns, rest.delay_ns
    shares, weights = shares_and_weights(own)
    span = int(own.end_ns[-1] - own.begin_ns[0]) if len(own) else 0
    return ProbedDirection(
        gpu=probe.gpu,
        direction=PROBE_DIRECTIONS[direction],
        chunk_bytes=probe.chunk_bytes,
        period_ns=probe.period_ns,
        records=len(own),
        undisturbed_gbs=None if usual is None else bandwidth_gbs(own.chunk_bytes, usual * 1e-9),
        undisturbed_delay_seconds=None if delay is None else delay * 1e-9,
        used_by_others=None if usual is None else float(np.average(shares, weights=weights)),
        episodes=episodes(probe, direction),
        probe_bytes=len(own) * (own.chunk_bytes + DELAY_BYTES),
        probe_busy_share=None if usual is None else min(len(own) * usual / span, 1.0),
    )


def probe_notes(directions: tuple[ProbedDirection, ...], *, counted: bool) -> tuple[str, ...]:
    """Return sentences on what probing cost, and on what its numbers are.

    Parameters
    ----------
    counted
        Whether counters watched, too: they count the probe's own bytes.
    """
    notes = []
    for gpu in dict.fromkeys(direction.gpu for direction in directions):
        own = [direction for direction in directions if direction.gpu == gpu]
        moved = " and ".join(f"{binary_text(w.probe_bytes)} {w.direction}" for w in own)
        busy = max((w.probe_busy_share or 0.0 for w in own), default=0.0)
        notes.append(
            f"The probe of g{gpu} itself moved {moved}, which occupied the link for "
            f"{100 * busy:.2g} % of the time in a direction"
            + ("; counters count that, too." if counted else ".")
        )
    if directions:
        notes.append(
            "What a probe says of others is an estimate from how much longer its copies took "
            "than the fastest quarter of them: a program that never rests looks idle."
        )
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class ProbeHeader:
    """The first line of a spool; see `probe_header`."""

    source: str
    version: int
    gpu: int
    chunk_bytes: PositiveInt
    period_ns: int


def probe_header(gpu: int, chunk_bytes: int, period_ns: int, most_share: float) -> str:
    """Return the first line of a spool; see `lanescope.trace.probe.Probe` for its values."""
    header = {"source": PROBE_SOURCE, "version": _VERSION, "gpu": gpu, "chunk_bytes": chunk_bytes}
    return json.dumps({**header, "period_ns": period_ns, "most_share": most_share}) + "\n"


def read_probe(path: Path) -> Probe:
    """Read the spool of a probe, whole or cut off.

    Raises
    ------
    InputError
        If there is no such file, or it is not a spool of this version, or damaged.
    """
    content = read_bytes(path, inner=2)
    header, begin = header_of(path, content, ProbeHeader, _VERSION, PROBE_SOURCE)
    records = np.frombuffer(
        content, _RECORD, count=(len(content) - begin) // _RECORD.itemsize, offset=begin
    )
    if np.any(records["direction"] >= len(PROBE_DIRECTIONS)) or np.any(
        records["begin_ns"] > LATEST_NS
    ):
        raise InputError(
            f"{path} is damaged: it holds a direction or a time that there is not; name another run"
        )
    return Probe(
        gpu=header.gpu,
        chunk_bytes=header.chunk_bytes,
        period_ns=header.period_ns,
        begin_ns=records["begin_ns"].astype(np.int64),
        delay_ns=records["delay_ns"].astype(np.int64),
        copy_ns=records["copy_ns"].astype(np.int64),
        direction=records["direction"].astype(np.int64),
        cpu_seconds=read_sidecar(path).cpu_seconds,
    )


def read_all_probes(folder: Path, damage: Damage | None = None) -> tuple[Probe, ...]:
    """Read every spool of a probe in a folder, by GPU; `damage` as of `read_all_counters`.

    One whose first line is cut off, as nothing had been probed yet, is left out.
    """
    damage = damage or Damage(refuses=True)
    found = []
    for path in sorted(folder.glob(f"{PROBE_SOURCE}.g*.bin")):
        with damage.leaving_out(path):
            found.append(read_probe(path))
    return tuple(sorted(found, key=lambda probe: probe.gpu))
