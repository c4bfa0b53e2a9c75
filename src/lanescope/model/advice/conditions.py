"""On which conditions a change is right, in sentences."""

from __future__ import annotations

from lanescope.model.advice.change import Step
from lanescope.model.advice.phase import Phase

_OF_STEPS = {
    Step.PIN: (
        "The same buffers are used again and again: pinning takes longer than copying.",
        "The memory may be pinned: the machine can spare it, and limits (ulimit -l, of a "
        "container) allow it.",
    ),
    Step.ASYNC: ("The host does not touch a buffer before it has waited for its copy.",),
    Step.BATCH: (
        "What is copied can lie in one buffer, or be gathered there for less than is gained.",
        "Nothing waits for one of the copies before the next is made.",
    ),
    Step.STREAMS: (
        "The work can be cut into parts that do not need each other's results.",
        "Nothing else waits between the copies and kernels of a round.",
    ),
    Step.ROUNDS: (
        "A round does not need what the one before it returns.",
        "The host can prepare the next round's input before this one has ended.",
        "There is memory for the data of two rounds, on the GPU and pinned.",
    ),
    Step.MAPPED: (
        "The kernels read and write each byte once, in order: each further time crosses the "
        "link again.",
        "The kernels hide the link's latency by many accesses at the same time.",
    ),
    Step.HYBRID: (
        "The work can be cut into parts that do not need each other's results.",
        "The kernels write each byte of the results once, in order.",
    ),
    Step.PLACE: (),
}


def conditions(steps: tuple[Step, ...], phase: Phase) -> tuple[str, ...]:
    """Return what has to hold for these steps, for a phase as it is."""
    found = [sentence for step in steps for sentence in _OF_STEPS[step]]
    found += _of_phase(steps, phase)
    return tuple(dict.fromkeys(found))


def _of_phase(steps: tuple[Step, ...], phase: Phase) -> list[str]:
    found = []
    cut = Step.STREAMS in steps or Step.HYBRID in steps
    works = phase.kernel_seconds is not None and phase.kernel_seconds.value > 0
    if cut and works:
        found.append("The kernels take as long in parts as in one, in sum.")
    if cut and phase.launches > 1:
        found.append(
            f"Each part can go through all {phase.launches} kernels of a round on its own."
        )
    if Step.PIN in steps and phase.rounds_in_run == 1:
        found.append(
            "It ran once: the memory is pinned before, and not for this one round, which would "
            "take longer than it gains."
        )
    if works:
        found.append("Kernels take as long as in this run: their time is taken from it.")
    if phase.host_seconds.value > 0.01 * phase.seconds.value:
        found.append("What the host does within a round takes as long as now, and still waits.")
    return found
