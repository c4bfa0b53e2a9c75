"""The map of small copies: sizes by counts by ways of handing them over, each way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lanescope.errors import InputError
from lanescope.experiment.copy import Copy, Engine
from lanescope.experiment.experiment import Experiment, Purpose, Timing
from lanescope.experiment.place import Memory, Place
from lanescope.experiment.submission import Submission
from lanescope.machine import Gpu, Machine
from lanescope.units.sizes import size_text

#: What the experiments of a map are called, in front.
PREFIX = "small/"

SMALLEST_BYTES = 4
#: Larger pieces are not small: `lanescope bench sweep` measures them.
LARGEST_BYTES = 4 << 20
#: Where a map would be told nothing new and take long.
MOST_PIECES = 4096
#: Nor are many of a size that together fill the link for milliseconds.
MOST_BYTES = 256 << 20

COUNTS = (1, 8, 64, 512, 4096)
_STEP = 4
#: What a piece takes at most beside its own bytes, for the order in which cells are measured.
_PIECE_MARGIN = 512


def stepped_sizes(smallest: int = SMALLEST_BYTES, largest: int = LARGEST_BYTES) -> tuple[int, ...]:
    """Return smallest, 4 * smallest, ... up to and with the last one not above `largest`.

    Raises
    ------
    InputError
        If the smallest is larger than the largest.

    >>> stepped_sizes(4, 100)
    (4, 16, 64)
    """
    if smallest > largest:
        raise InputError(
            f"the smallest size ({size_text(smallest)}) is larger than the largest "
            f"({size_text(largest)}); swap them"
        )
    sizes = []
    while smallest <= largest:
        sizes.append(smallest)
        smallest *= _STEP
    return tuple(sizes)


def small_experiments(
    machine: Machine,
    gpus: Iterable[Gpu],
    sizes: Sequence[int],
    counts: Sequence[int] = COUNTS,
    methods: Sequence[Submission] = tuple(Submission),
) -> tuple[Experiment, ...]:
    """Return the cells of the maps of some GPUs, host to GPU and GPU to host.

    Cells of more than 256 MiB are left out. The largest come first, so that buffers
    are made once, and the methods of a cell one after the other, so that they meet
    the machine in the same state. What is named twice is measured once.

    Raises
    ------
    InputError
        If a size or a count is out of range, or no cell is left.
    """
    _require_range(
        "a piece", sizes, LARGEST_BYTES, "B", "'lanescope bench sweep' takes larger ones"
    )
    _require_range("a cell", counts, MOST_PIECES, "pieces", "give fewer")
    if not methods:
        raise InputError("a map without any method cannot be measured; give at least one")
    cells = [(n, s) for n in set(counts) for s in set(sizes) if n * s <= MOST_BYTES]
    if not cells:
        raise InputError(
            f"all cells hold more than {MOST_BYTES >> 20} MiB and are not small; "
            "give smaller sizes or counts"
        )
    cells.sort(key=lambda cell: (cell[0] * (cell[1] + _PIECE_MARGIN), cell), reverse=True)
    return tuple(
        _cell(machine, gpu, down, count, size, method)
        for gpu in dict.fromkeys(gpus)
        for count, size in cells
        for down in (True, False)
        for method in dict.fromkeys(methods)
    )


def _cell(
    machine: Machine, gpu: Gpu, down: bool, count: int, size: int, method: Submission
) -> Experiment:
    host = Place(machine.nearest_node(gpu).id, Memory.PINNED)
    device = Place(gpu.id, Memory.DEVICE)
    source, destination = (host, device) if down else (device, host)
    engine = Engine.SM if method.by_kernel else Engine.CE
    copy = Copy(source, destination, count * size, engine, pieces=count, submission=method)
    return Experiment(
        name=f"{PREFIX}{'h2d' if down else 'd2h'}/{gpu.id}/{method}/{count}x{size}",
        title=f"{copy.path}, {count} x {size} B, {method}",
        copies=(copy,),
        timing=Timing.HOST,
        purpose=Purpose.SMALL,
    )


def _require_range(what: str, values: Sequence[int], most: int, unit: str, remedy: str) -> None:
    if not values:
        raise InputError(f"{what} without any size or count cannot be measured; give at least one")
    for value in values:
        if not 1 <= value <= most:
            raise InputError(f"{what} of {value} {unit} is not between 1 and {most}; {remedy}")
