"""What fits into the memory of a machine, and a sentence for what does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lanescope.experiment.experiment import Experiment
from lanescope.experiment.footprint import taken_bytes
from lanescope.machine import Machine
from lanescope.units.sizes import binary_text


@dataclass(frozen=True, slots=True)
class Planned:
    """Experiments, and sentences on what is not among them."""

    experiments: tuple[Experiment, ...]
    notes: tuple[str, ...] = ()


def memory_of(machine: Machine) -> dict[str, int]:
    """Return the memory of each part of a machine, as far as it is known."""
    sizes = [(node.id, node.memory_bytes) for node in machine.nodes]
    sizes += [(gpu.id, gpu.memory_bytes) for gpu in machine.gpus]
    return {part: size for part, size in sizes if size is not None}


def fitting(experiments: Iterable[Experiment], free_bytes: Mapping[str, int], what: str) -> Planned:
    """Return the experiments that memory holds, and what to tell about the others.

    Parameters
    ----------
    free_bytes
        By part of the machine; parts that it does not name hold everything.
    what
        Beginning of the names, for the sentence.
    """
    fit, short = [], []
    for experiment in experiments:
        taken = taken_bytes(experiment)
        lacking = [p for p, n in taken.items() if n > free_bytes.get(p, n)]
        if lacking:
            short.append((experiment, lacking[0], taken[lacking[0]]))
        else:
            fit.append(experiment)
    return Planned(tuple(fit), _notes(short, free_bytes, what))


def _notes(
    short: Sequence[tuple[Experiment, str, int]], free_bytes: Mapping[str, int], what: str
) -> tuple[str, ...]:
    notes = []
    for part in dict.fromkeys(part for _, part, _ in short):
        needs = [needed for _, lacking, needed in short if lacking == part]
        points = "1 point is" if len(needs) == 1 else f"{len(needs)} points are"
        notes.append(
            f"{what}: {points} left out, which would take {binary_text(min(needs))} of {part} "
            f"or more; it has {free_bytes[part] >> 20} MiB free."
        )
    return tuple(notes)
