"""A reproduction of stored captures of an H200, with a probe of plain numbers beside them."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lanescope.store.folder import State
from lanescope.studies.pcie_thesis.reproduction import (
    FinishedTurn,
    Mode,
    Program,
    ProgramStep,
    ReproductionFolder,
    ReproductionRequest,
    Turn,
    programs_for,
    turns,
)
from lanescope.trace.codes import DirectionCode
from lanescope.trace.columns import write_columns
from lanescope.trace.operations import Operations
from lanescope.trace.probe import Probe
from lanescope.trace.run import SourceRecord, WatchManifest
from lanescope.trace.store import read_watch
from lanescope.trace.timeline import Counters, Timeline
from lanescope.trace.watch_folder import WatchFolder
from tests.trace.probes import COPY_NS, DELAY_NS, probe_of

CAPTURES = Path(__file__).parents[3] / "benchmarks/results/h200-x1/watch"
PROGRAMS = programs_for(("vector-add", "matmul"), ("400MB",))
MACHINE = read_watch(CAPTURES / "vector-add").manifest.machine
GPU = MACHINE.gpus[0]
REST_NS = 1_000_000_000
#: How much longer than unwatched a program takes with all sources, and with the probe.
SLOWER = {Mode.PLAIN: 1.0, Mode.SOURCES: 1.02, Mode.PROBE: 1.1}


def steps_of(operations: Operations) -> tuple[ProgramStep, ...]:
    """Steps as the program would have told them: its copies, and the kernels as one."""
    copies = operations.rows(np.isin(operations.direction, (DirectionCode.H2D, DirectionCode.D2H)))
    rows = [
        (int(s), int(e), int(b * (w == DirectionCode.H2D)), int(b * (w == DirectionCode.D2H)))
        for s, e, b, w in zip(
            copies.start_ns, copies.end_ns, copies.bytes, copies.direction, strict=True
        )
    ]
    kernels = operations.rows(operations.is_kernel)
    rows.append((int(kernels.start_ns.min()), int(kernels.end_ns.max()), 0, 0))
    return tuple(
        ProgramStep("compute" if not h + d else f"copy {i}", s, e, h, d, int(h + d > 0))
        for i, (s, e, h, d) in enumerate(sorted(rows))
    )


def stretched(steps: Sequence[ProgramStep], factor: float) -> tuple[ProgramStep, ...]:
    """The same steps in so many times the time."""
    first = steps[0].begin_ns
    ns = lambda time: first + int((time - first) * factor)  # noqa: E731
    return tuple(
        dataclasses.replace(s, begin_ns=ns(s.begin_ns), end_ns=ns(s.end_ns)) for s in steps
    )


def probe_over(steps: Sequence[ProgramStep]) -> Probe:
    """A probe that is held up three times as long during copies, its delay while computing.

    It begins before the program does: while Python starts.
    """
    begin, end = steps[0].begin_ns - REST_NS, steps[-1].end_ns
    rounds = 4000
    period = (end - begin) // rounds
    at = begin + np.arange(rounds) * period
    copy, delay = np.full(rounds, COPY_NS), np.full(rounds, DELAY_NS)
    for step in steps:
        inside = (at >= step.begin_ns) & (at < step.end_ns)
        if sum(step.moved):
            copy[inside] *= 3
        else:
            delay[inside] *= 4
    probe = probe_of(copy, delay, period_ns=int(period))
    return dataclasses.replace(probe, begin_ns=probe.begin_ns + begin)


def write_watch(folder: Path, timeline: Timeline, sources: Sequence[str] = ()) -> None:
    """Store a watch that is over."""
    manifest = WatchManifest(
        "lanescope reproduce pcie-thesis",
        (),
        "2026-11-21T18:21:14+00:00",
        "0.3.0",
        MACHINE,
        timeline.start_ns,
        timeline.end_ns,
        0,
        State.COMPLETE,
        tuple(SourceRecord(name, used=True, samples=10, lost_samples=0) for name in sources),
    )
    made = WatchFolder(folder, manifest)
    write_columns(folder, timeline)
    shutil.rmtree(made.spool)


def coarser(counters: Counters, each: int, source: str) -> Counters:
    """The same bytes by another source that reads so many times less often."""
    kept = np.arange(0, len(counters), each)
    sums = [
        np.add.reduceat(column[: kept[-1] + 1], np.append(0, kept[:-1] + 1))
        for column in (counters.rx_bytes, counters.tx_bytes)
    ]
    known = np.ones(kept.size, bool)
    known[0] = False
    return Counters(
        source, counters.gpu, counters.interval_ns * each, counters.end_ns[kept], *sums, known
    )


def write_turn(made: ReproductionFolder, turn: Turn) -> None:
    """Store one turn."""
    place = made.place(turn)
    if turn.program is None:
        idle = probe_over((ProgramStep("idle", 10**18, 10**18 + 10**9, 1, 0, 0),))
        quiet = dataclasses.replace(idle, copy_ns=np.full(len(idle), COPY_NS))
        write_watch(place, Timeline(10**18, 10**18 + 10**9, probes=(quiet,)), ["probe.g0"])
        made.finish(FinishedTurn(turn, place))
        return
    name = turn.program.arguments[0]
    capture = CAPTURES / ("matmul" if name == "matmul" else "vector-add")  # for the outlook, too
    steps = steps_of(read_watch(capture).timeline.operations)
    if turn.mode is Mode.SOURCES:
        shutil.copytree(capture, place)
        made.finish(FinishedTurn(turn, place, steps))
        return
    steps = stretched(steps, SLOWER[turn.mode] / SLOWER[Mode.SOURCES])
    if turn.mode is Mode.PROBE:
        span = Timeline(steps[0].begin_ns - REST_NS, steps[-1].end_ns, probes=(probe_over(steps),))
        write_watch(place, span, ["probe.g0"])
    made.finish(FinishedTurn(turn, place, steps))


def reproduction(
    folder: Path,
    programs: Sequence[Program] = PROGRAMS,
    repetitions: int = 1,
    most: int | None = None,
) -> Path:
    """Store a reproduction; `most` turns of it, when it was interrupted."""
    asked = ReproductionRequest(
        "lanescope reproduce pcie-thesis",
        "2026-11-21T18:21:14+00:00",
        "0.3.0",
        MACHINE,
        GPU.index,
        repetitions,
        tuple(programs),
    )
    made = ReproductionFolder(folder, asked)
    planned = turns(programs, repetitions)
    for turn in planned[:most]:
        write_turn(made, turn)
    state = State.COMPLETE if most is None else State.INTERRUPTED
    made.update(dataclasses.replace(asked, state=state))
    return folder
