"""What a reproduction tells, in numbers: the values that page, terminal and JSON share."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lanescope.studies.pcie_thesis.reproduction import Mode, Program, ProgramStep, Reproduction
from lanescope.trace.codes import FloatArray, IntArray
from lanescope.trace.limits import DIRECTIONS, LinkLimit
from lanescope.trace.operations import Operations
from lanescope.trace.probe import Probe
from lanescope.trace.wire import RESOLUTION, settle
from lanescope.units.sizes import bandwidths_gbs


@dataclass(frozen=True, slots=True)
class Quantity:
    """The median of some repetitions, and their range.

    Attributes
    ----------
    unit
        ``s``, ``B``, ``GB/s``, or ``share`` (1 is all).
    method
        How one of them was found, as a sentence.
    low, high
        The least and the most of `n` of them.
    """

    value: float
    unit: str
    method: str
    low: float
    high: float
    n: int


def quantity(values: Iterable[float | None], unit: str, method: str) -> Quantity | None:
    """Return the median and range of what is known; None where nothing is.

    >>> quantity([2.0, None, 1.0, 4.0], "s", "By hand.").value
    2.0
    """
    known = [float(v) for v in values if v is not None and math.isfinite(v)]
    if not known:
        return None
    return Quantity(statistics.median(known), unit, method, min(known), max(known), len(known))


#: To the GPU, and from it.
Pair = tuple[Quantity | None, Quantity | None]
NOTHING: Pair = (None, None)


def pair_of(values: Iterable[Quantity | None]) -> Pair:
    """Return two values, to the GPU and from it, as a pair."""
    down, up = values
    return down, up


@dataclass(frozen=True, slots=True, eq=False)
class Payload:
    """Payload of one counter, record by record; both directions in one clock.

    Attributes
    ----------
    end_ns
        End of each record, nanoseconds since 1970; the first has no start.
    bytes
        A row for each direction (h2d, d2h); below zero where the model takes off too much.
    known_ns
        How much of each record is known.
    """

    source: str
    end_ns: IntArray
    bytes: FloatArray
    known_ns: FloatArray

    @property
    def interval_ns(self) -> int:
        """From record to record, the median; 0 with fewer than two."""
        return int(np.median(np.diff(self.end_ns))) if self.end_ns.size > 1 else 0

    def gbs(self) -> FloatArray:
        """Rate of each record in GB/s, a row for each direction; not a number where unknown."""
        settled = settle(self.bytes[0], self.bytes[1], RESOLUTION)
        return np.stack([bandwidths_gbs(direction, self.known_ns * 1e-9) for direction in settled])


@dataclass(frozen=True, slots=True)
class SourceResults:
    """What one source told of one program; pairs are to the GPU and from it.

    Attributes
    ----------
    reason
        Why it did not watch, or what went wrong; None when all is well.
    bytes, deviation
        In the steps that copy, and how far that is from what the program says, as a share.
    elsewhere_bytes
        That counters saw in the rest of the watch.
    highest_gbs
        Of counters the fastest record in those steps; of a trace the fastest copy.
    interval_seconds
        From record to record; None for a trace, which has each copy by itself.
    shaped, copying
        So many of the steps that copy are long enough for it to see their shape.
    samples, lost
        Of all repetitions together; None for a trace's samples.
    copies
        That a trace has.
    """

    source: str
    used: bool
    reason: str | None = None
    bytes: Pair = NOTHING
    deviation: Pair = NOTHING
    elsewhere_bytes: Pair = NOTHING
    highest_gbs: Pair = NOTHING
    interval_seconds: Quantity | None = None
    shaped: int | None = None
    copying: int = 0
    samples: int | None = None
    lost: int | None = None
    cpu_seconds: Quantity | None = None
    copies: Quantity | None = None


@dataclass(frozen=True, slots=True)
class StepResults:
    """A step: how long it took in each way of running, and what the probe found in it."""

    name: str
    h2d_bytes: int
    d2h_bytes: int
    copies: int
    seconds: Mapping[Mode, Quantity]
    probe_gbs: Pair = NOTHING
    probe_delay_seconds: Pair = NOTHING


@dataclass(frozen=True, slots=True)
class NoticedResults:
    """Steps that copy one way, and how many of them the probe noticed, over all repetitions."""

    direction: str
    seen: int
    steps: int
    alarms: int
    longest_seconds: Quantity | None


@dataclass(frozen=True, slots=True)
class Sentences:
    """In words, what each source could and could not see, what the probe did, and the program."""

    sources: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    program: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The repetition that the page draws: what counters, trace and probe saw, and the steps."""

    payloads: tuple[Payload, ...] = ()
    operations: Operations | None = None
    steps: tuple[ProgramStep, ...] = ()
    probe: Probe | None = None
    probe_steps: tuple[ProgramStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramResults:
    """One program.

    Attributes
    ----------
    truth_bytes, truth_copies
        What it says to have moved, each way, and by how many copies.
    fastest_step_gbs
        Each way, the rate of its fastest step, unwatched where that was run.
    work_seconds
        From its first step to its last, by way of running.
    slowdown
        Against the unwatched run of the same repetition; a share, 0 is none.
    """

    program: Program
    truth_bytes: tuple[int, int]
    truth_copies: int
    fastest_step_gbs: Pair
    work_seconds: Mapping[Mode, Quantity]
    slowdown: Mapping[Mode, Quantity]
    sources: tuple[SourceResults, ...]
    steps: tuple[StepResults, ...]
    noticed: tuple[NoticedResults, ...]
    sentences: Sentences = field(default_factory=Sentences)
    shown: Shown = field(default_factory=Shown, compare=False)


@dataclass(frozen=True, slots=True)
class ReproductionResults:
    """A whole reproduction.

    Attributes
    ----------
    limits
        What the link carries at most, each way.
    idle_gbs, idle_delay_seconds
        What the probe found of the idle link.
    """

    reproduction: Reproduction
    planned: int
    limits: tuple[LinkLimit, LinkLimit]
    idle_gbs: Pair
    idle_delay_seconds: Pair
    programs: tuple[ProgramResults, ...]


#: Version of ``chapters.json``.
JSON_VERSION = 1


def reproduction_json(results: ReproductionResults) -> dict[str, Any]:
    """Return it as plain values; each number has its unit, its method and its spread."""
    request = results.reproduction.asked
    gpu = next(gpu for gpu in request.machine.gpus if gpu.index == request.gpu)
    return {
        "schema": JSON_VERSION,
        "what": "Qi, Analysis of data movements over the PCIe bus, 2022, chapters 4, 5 and 7.4",
        "tool_version": request.tool_version,
        "command": request.command,
        "started": request.started,
        "state": request.state,
        "machine": request.machine.name,
        "gpu": {"index": gpu.index, "name": gpu.name},
        "repetitions": request.repetitions,
        "turns_done": len(results.reproduction.done),
        "turns_planned": results.planned,
        "notes": list(request.notes),
        "limits": _directions([asdict(limit) for limit in results.limits]),
        "idle": {
            "probe_gbs": _directions(results.idle_gbs),
            "probe_delay_seconds": _directions(results.idle_delay_seconds),
        },
        "programs": [_program(one) for one in results.programs],
    }


def _program(one: ProgramResults) -> dict[str, Any]:
    return {
        "program": asdict(one.program),
        "truth": {
            "bytes": _directions(one.truth_bytes),
            "copies": one.truth_copies,
            "unit": "B",
            "method": "As the program itself says.",
        },
        "fastest_step_gbs": _directions(one.fastest_step_gbs),
        "work_seconds": _plain(one.work_seconds),
        "slowdown": _plain(one.slowdown),
        "sources": [_source(source) for source in one.sources],
        "steps": [_step(step) for step in one.steps],
        "noticed_by_probe": [asdict(noticed) for noticed in one.noticed],
        "sentences": asdict(one.sentences),
    }


def _source(one: SourceResults) -> dict[str, Any]:
    pairs = ("bytes", "deviation", "elsewhere_bytes", "highest_gbs")
    return {**asdict(one), **{key: _directions(getattr(one, key)) for key in pairs}}


def _step(one: StepResults) -> dict[str, Any]:
    return {
        "name": one.name,
        "h2d_bytes": one.h2d_bytes,
        "d2h_bytes": one.d2h_bytes,
        "copies": one.copies,
        "seconds": _plain(one.seconds),
        "probe_gbs": _directions(one.probe_gbs),
        "probe_delay_seconds": _directions(one.probe_delay_seconds),
    }


def _directions(pair: Any) -> dict[str, Any]:
    return {
        direction: asdict(value) if isinstance(value, Quantity) else value
        for direction, value in zip(DIRECTIONS, pair, strict=True)
    }


def _plain(by_mode: Mapping[Mode, Quantity]) -> dict[str, Any]:
    return {mode.value: asdict(value) for mode, value in by_mode.items()}
