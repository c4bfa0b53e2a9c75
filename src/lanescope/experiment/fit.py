"""Copies made as small as memory demands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from lanescope.experiment.experiment import Experiment
from lanescope.units.sizes import binary_text, size_text

#: Buffers of this size always fit.
_SMALLEST_BYTES = 1 << 20


def needed_bytes(experiments: Iterable[Experiment]) -> dict[str, int]:
    """Return for each part of the machine the bytes that its most demanding experiment takes.

    Buffers are kept from one experiment to the next, so that this is what a run takes.
    """
    most: dict[str, int] = {}
    for experiment in experiments:
        taken: Counter[str] = Counter()
        for copy in experiment.copies:
            for place in (copy.source, copy.destination):
                taken[place.part] += copy.bytes
        most |= {part: max(count, most.get(part, 0)) for part, count in taken.items()}
    return most


def fitting_size(
    wanted_bytes: int,
    experiments_at: Callable[[int], Sequence[Experiment]],
    free_bytes: Mapping[str, int],
) -> tuple[int, tuple[str, ...]]:
    """Return a size of copies that memory holds, and what to tell about it.

    Parameters
    ----------
    wanted_bytes
        Size asked for; halved until it fits, down to 1 MiB.
    experiments_at
        The experiments with copies of a size.
    free_bytes
        By part of the machine; parts that it does not name hold everything.
    """
    size, tight = wanted_bytes, None
    while size > _SMALLEST_BYTES:
        needed = needed_bytes(experiments_at(size))
        short = [p for p, n in needed.items() if n > free_bytes.get(p, n)]
        if not short:
            break
        tight = tight or (short[0], needed[short[0]])
        size = max(size // 2, _SMALLEST_BYTES)
    if tight is None:
        return size, ()
    part, bytes_needed = tight
    return size, (
        f"Copies of {size_text(size)} instead of {size_text(wanted_bytes)}: all at once they "
        f"would take {binary_text(bytes_needed)} of {part}, which has "
        f"{binary_text(free_bytes[part])} free.",
    )
