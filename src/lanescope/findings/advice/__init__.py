"""What a watched program does again and again, and what changes of it would gain.

From a watch and the parameters of a link to advice.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from lanescope.errors import InputError, command
from lanescope.findings.advice.advice import Advice, PhaseAdvice
from lanescope.findings.advice.edited import base_seconds
from lanescope.findings.advice.judge import calibrate, changes_of, in_order, placed
from lanescope.findings.advice.lanes import MOST_OPERATIONS, Reading
from lanescope.findings.advice.phase import Phase, RoundPredictor, predicting
from lanescope.findings.advice.phases import find_phases
from lanescope.findings.advice.pinned import staged
from lanescope.findings.advice.resent import Contents
from lanescope.findings.code import CUDA, CUPY, PYTORCH, kernels_of, languages
from lanescope.findings.trace.links import far_by_direction
from lanescope.prediction.parameters import Direction, LinkParameters
from lanescope.prediction.predictor import Predictor
from lanescope.prediction.stored_parameters import machine_key
from lanescope.trace.codes import DirectionCode as CopyDirection
from lanescope.trace.codes import OperationCode
from lanescope.trace.limits import Ceilings
from lanescope.trace.operations import Operations
from lanescope.trace.run import WatchManifest, WatchRun
from lanescope.units.words import time_text

#: Of a phase with a smaller share of the watched time nothing is worth a change.
LEAST_OF_WATCH = 0.001
#: What ran once, as the start of a program, has to gain this share of the watched time.
_LEAST_GAIN_ONCE = 0.02
#: What repeats has to gain this share of the time of all that its process repeats.
_LEAST_GAIN_OF_LOOPS = 0.005
#: To read what copies carry is worth a note from this share of a round on.
_LEAST_READING = 0.01
#: Libraries that copy pageable data into pinned memory of their own before they submit a copy.
_STAGING = (CUPY,)
#: What to run for what a default watch leaves out.
_WITH_KERNELS = "'lanescope watch --kernels -- PROGRAM', or 'lanescope advise -- PROGRAM',"


def advise(
    run: WatchRun,
    parameters: LinkParameters,
    predictor: Predictor,
    ceilings: Ceilings | None = None,
) -> Advice:
    """Return what would make a watched program faster.

    Parameters
    ----------
    parameters
        Of the link that the changed program will use.
    ceilings
        What earlier runs measured of the machine, near and far memory among it.

    Raises
    ------
    InputError
        If nothing was traced of which advice could be given.
    """
    phases = phases_of(run)
    predict = predicting(predictor, parameters)
    found = [_of_phase(phase, predict, parameters) for phase in phases]
    found = _with_places(found, run, ceilings)
    loops: dict[int, float] = defaultdict(float)
    for one in found:
        rounds = one.phase.rounds_in_run
        loops[one.phase.pid] += one.base_seconds * rounds if rounds > 1 else 0.0
    seconds = run.timeline.seconds
    found = [_if_it_matters(one, seconds, loops[one.phase.pid]) for one in found]
    found.sort(key=_first_gain)
    return Advice(
        {process.pid: process.command for process in run.timeline.processes},
        run.timeline.seconds,
        parameters.name,
        predictor.name,
        tuple(found),
        _notes(run, parameters, phases),
    )


def phases_of(run: WatchRun) -> tuple[Phase, ...]:
    """Return the phases of a watch.

    Raises
    ------
    InputError
        If there is none.
    """
    operations = run.timeline.timed_operations
    if len(run.timeline.operations) and not len(operations):
        raise InputError(
            f"{run.folder or 'this watch'} does not know how long the GPU took for copies; watch "
            f"by {command('watch --kernels -- PROGRAM')}, which traces that"
        )
    kernels = _kernels_traced(operations, run.manifest)
    reading = Reading.of(run.timeline.host_copies)
    contents = Contents.of(run.timeline)
    phases = find_phases(operations, contents, kernels=kernels, reading=reading)
    if not phases:
        raise InputError(_nothing(run))
    found = languages(run.timeline)
    return tuple(in_language(p, found.get(p.pid, CUDA)) for p in phases)


def in_language(phase: Phase, language: str) -> Phase:
    """Return a phase of a program whose library may copy data into pinned memory first."""
    schedule = phase.schedule
    if schedule is not None and language in _STAGING:
        at = staged(schedule.tasks)
        tasks = (replace(task, staged=place in at) for place, task in enumerate(schedule.tasks))
        schedule = replace(schedule, tasks=tuple(tasks))
    return replace(phase, language=language, schedule=schedule)


def _kernels_traced(operations: Operations, manifest: WatchManifest) -> bool:
    """Whether kernels were traced: there are some, or the command line asked for them."""
    if any(bool(piece.is_kernel.any()) for piece in operations.pieces()):
        return True
    words = manifest.command.split()  # a name in it may have a quote that nothing closes
    words = words[: words.index("--")] if "--" in words else words
    return "--kernels" in words or words[1:2] == ["advise"]


def _nothing(run: WatchRun) -> str:
    where = run.folder or "this watch"
    if len(run.timeline.operations):
        return (
            f"{where} holds no copies between the host and a GPU, of which advice could be given; "
            "copies between GPUs and kernels alone are not modelled"
        )
    refused = next(
        (s for s in run.manifest.sources if s.name in ("trace", "calls") and s.reason), None
    )
    why = f" ({refused.reason})" if refused is not None else ""
    return (
        f"{where} holds no copies: nothing was traced{why}; watch a program that uses a GPU by "
        f"{command('advise -- PROGRAM')}"
    )


def _of_phase(phase: Phase, predict: RoundPredictor, parameters: LinkParameters) -> PhaseAdvice:
    calibration = calibrate(phase, predict)
    changes = changes_of(phase, calibration, predict, parameters)
    return PhaseAdvice(
        phase,
        base_seconds(phase),
        calibration.predicted,
        calibration.error,
        calibration.reason is None,
        calibration.reason,
        changes,
        _phase_notes(phase),
    )


def _if_it_matters(one: PhaseAdvice, watched_seconds: float, loops_seconds: float) -> PhaseAdvice:
    """Return the advice of a phase, of which nothing is worth it where it gains next to nothing.

    Parameters
    ----------
    loops_seconds
        Of all that the phase's process does more than once.
    """
    share = one.phase.run_seconds / watched_seconds if watched_seconds > 0 else 1.0
    if share < LEAST_OF_WATCH:
        why = f"its phase has less than {LEAST_OF_WATCH:.1%} of the watched time"
        return replace(one, changes=tuple(replace(c, why=c.why or why) for c in one.changes))
    if one.phase.rounds_in_run > 1:
        least, seconds = _LEAST_GAIN_OF_LOOPS, loops_seconds
        why = f"it gains less than {least:.1%} of all that the program repeats"
    else:
        least, seconds = _LEAST_GAIN_ONCE, watched_seconds
        why = f"it ran once, and gains less than {least:.0%} of the watched time"
    # where nobody knows what pinning takes the run gains no more than its rounds
    gains = (
        (c, c.round_gain_seconds.value * one.phase.rounds_in_run)
        if c.gain_seconds is None
        else (c, c.gain_seconds.value)
        for c in one.changes
    )
    changes = (c if gain >= least * seconds else replace(c, why=c.why or why) for c, gain in gains)
    return replace(one, changes=tuple(changes))


def _first_gain(one: PhaseAdvice) -> float:
    """Return the gain of the first advice, in a sign by which the largest comes first."""
    gains = [change.gain_seconds for change in one.advised[:1]]
    return -sum(gain.value for gain in gains if gain is not None)


def _phase_notes(phase: Phase) -> tuple[str, ...]:
    notes = []
    schedule = phase.schedule
    if schedule is not None and 1 - schedule.unread_share >= _LEAST_READING:
        notes.append(
            "Of a round that was measured the watch itself took about "
            f"{time_text(schedule.read_ns * 1e-9 / schedule.rounds)} to read what copies carry; "
            "what is predicted is without that."
        )
    if phase.rounds == 1:
        notes.append(
            "It ran once: medians are of one round, and nothing tells how much rounds differ."
        )
    if phase.kernel_seconds is None:
        notes.append(
            "Kernels were not traced: what overlaps with them, mapped memory and pauses of the "
            f"host are not known; {_WITH_KERNELS} traces them."
        )
    if phase.constant_input:
        notes.append(
            "All that a round sends is the same in each round. If that is no test with one set of "
            "data, keep it on the GPU ('lanescope watch --hash' says what that takes)."
        )
    if phase.endless:
        notes.append(
            f"It is a pipeline that does not run dry; {phase.parts} of its parts count as a round."
        )
    return tuple(notes)


def _with_places(
    found: list[PhaseAdvice], run: WatchRun, ceilings: Ceilings | None
) -> list[PhaseAdvice]:
    """Add what host memory on the GPU's own node gains, which no model has to tell."""
    machine = run.manifest.machine
    for gpu, direction, finding in far_by_direction(run.timeline, machine, ceilings):
        moved = {i: _moved(one.phase, gpu, Direction(direction)) for i, one in enumerate(found)}
        # of the whole run: of what phases that are not told moved, none gains anything
        total = max(
            sum(moved.values()), _copied(run.timeline.operations, gpu, Direction(direction))
        )
        for i, bytes_ in moved.items():
            if not bytes_:
                continue
            one = found[i]
            if finding.gain_seconds is None:
                note = f"{finding.sentence} {finding.basis[0].upper()}{finding.basis[1:]}."
                found[i] = replace(one, notes=(*one.notes, note))
                continue
            each = finding.gain_seconds.high * bytes_ / total / one.phase.rounds_in_run
            change = placed(
                one.phase,
                Direction(direction),
                each,
                f"allocate the host memory of {direction} copies on the GPU's own NUMA node",
                finding.conditions,
                finding.basis,
            )
            found[i] = replace(one, changes=in_order([*one.changes, change]))
    return found


def _copied(operations: Operations, gpu: int, direction: Direction) -> int:
    """Return the bytes that all processes copied over the link of a GPU in a direction."""
    code = CopyDirection.H2D if direction is Direction.H2D else CopyDirection.D2H
    return sum(
        int(piece.bytes[(piece.device == gpu) & (piece.direction == code)].sum())
        for piece in operations.pieces()
    )


def _moved(phase: Phase, gpu: int, direction: Direction) -> float:
    if phase.gpu != gpu:
        return 0.0
    return phase.rounds_in_run * sum(c.bytes for c in phase.copies if c.direction is direction)


def _notes(run: WatchRun, parameters: LinkParameters, phases: tuple[Phase, ...]) -> tuple[str, ...]:
    notes = list(other_machine(run, parameters, phases))
    if len(run.timeline.operations) > 2 * MOST_OPERATIONS:
        notes.append(
            f"Of each process and GPU the first and the last {MOST_OPERATIONS} operations were "
            "looked at; rounds of the whole run are reckoned from its bytes."
        )
    if read := Reading.of(run.timeline.host_copies).seconds:
        notes.append(
            f"To read what copies carried held the program up for {time_text(read)} in all, "
            "which no time of a round contains."
        )
    pairs = {(phase.pid, phase.gpu) for phase in phases}
    if len(pairs) > 1:
        notes.append(
            f"{len(pairs)} pairs of process and GPU copied. Each is predicted as if it had its "
            "link and the host's memory to itself."
        )
    moves = (
        bool((piece.what == OperationCode.MIGRATION).any())
        for piece in run.timeline.operations.pieces()
    )
    if any(moves):
        notes.append("Pages of managed memory moved, too; that is not modelled.")
    if any(p.language == PYTORCH for p in phases) and not kernels_of(run.timeline):
        notes.append(
            "No kernel tells which library this program of Python uses; the code is PyTorch's."
        )
    if any(not process.complete for process in run.timeline.processes):
        notes.append("The trace of a process was cut off; what it did afterwards is missing.")
    return tuple(notes)


def other_machine(
    run: WatchRun, parameters: LinkParameters, phases: tuple[Phase, ...]
) -> list[str]:
    """Return that the parameters are not those of the watched machine, where that can be told.

    Where nothing tells of which machine they are, the names of the GPUs are compared.
    """
    machine = run.manifest.machine
    known = {gpu.index: gpu.name for gpu in machine.gpus}
    gpus = sorted({phase.gpu for phase in phases} & set(known))
    keys = sorted({machine_key(machine, gpu) or "" for gpu in gpus})
    if parameters.machine_key is None:
        watched, theirs = sorted({known[gpu] for gpu in gpus}), parameters.gpu
    else:
        watched, theirs = keys, parameters.machine_key
    if not watched or watched == [theirs]:
        return []
    return [
        f"The run is of {' and '.join(watched)}, the parameters ({parameters.name}) are of "
        f"{theirs}: what is predicted holds for the latter, with kernel times of the run. Name "
        "the parameters of the run's own machine with --parameters."
    ]
