"""``bench small``: many small copies, and how best to hand them over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.requirements import chosen_gpus, missing_part
from lanescope.copies.terms import Memory, Place, Submission
from lanescope.document.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Group,
    Kind,
    Section,
    Style,
    Table,
    Text,
    Value,
)
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError, command
from lanescope.machine import Gpu, Machine
from lanescope.report.format import count_text
from lanescope.store.run import Run
from lanescope.studies import gpu_option, size_option
from lanescope.studies.small_maps import (
    EXPLANATION,
    SmallMap,
    cell_lines,
    map_sentences,
    small_chart,
    small_conclusion,
    small_maps,
)
from lanescope.studies.study import Option, Study, Work
from lanescope.units.sizes import Size, rising_sizes, size_of
from lanescope.units.values import Numbers, OneOf

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
STEP = 4
#: What a piece takes at most beside its own bytes, for the order in which cells are measured.
_PIECE_MARGIN = 512


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
        "a piece", sizes, LARGEST_BYTES, "B", f"{command('bench sweep')} takes larger ones"
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
        _planned_cell(machine, gpu, down, count, size, method)
        for gpu in dict.fromkeys(gpus)
        for count, size in cells
        for down in (True, False)
        for method in dict.fromkeys(methods)
    )


def _planned_cell(
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


def _methods() -> Iterable[str]:
    return Submission


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Small(Study):
    """Map small copies between host and GPU: which method to hand them over is the fastest.

    Every size with every count, each direction, from and to pinned memory, by the host's
    clock. Cells of more than 256 MiB are left out. A described machine cannot be mapped:
    nothing predicts what a call costs.

    Attributes
    ----------
    smallest, largest
        Bytes of a piece; sizes go up by four.
    sizes
        Bytes of a piece, instead of these.
    counts
        Numbers of pieces.
    methods
        How the copies are handed over; None takes all.
    gpus
        Numbers of the GPUs; None takes the first.
    """

    verb: ClassVar[str] = "small"
    title: ClassVar[str] = "Small copies"
    sampling: ClassVar[Plan] = Plan(0.01, 0.05)
    judges_paths: ClassVar[bool] = False
    of_what: ClassVar[str] = "one cell"
    predicted: ClassVar[bool] = False

    smallest: Annotated[Size, size_option("Smallest piece.", "4B", "--min", most=LARGEST_BYTES)] = (
        SMALLEST_BYTES
    )
    largest: Annotated[
        Size,
        size_option("Largest piece; sizes go up by four.", "4MiB", "--max", most=LARGEST_BYTES),
    ] = LARGEST_BYTES
    sizes: Sequence[Size] | None = None
    counts: Annotated[
        Sequence[int],
        Option(
            Numbers("--counts", 1, MOST_PIECES, "1,64,4096"),
            "Numbers of pieces, up to 4096.",
            "1,8,64,512,4096",
        ),
    ] = COUNTS
    methods: Annotated[
        Sequence[Submission] | None,
        Option(
            OneOf("--method", _methods),
            "single, batch, graph, kernel or mapped; may be repeated; default all.",
            repeated=True,
        ),
    ] = None
    gpus: Annotated[int | Sequence[int] | None, gpu_option("GPU to map")] = None

    def work(self, machine: Machine) -> Work:
        """Return a cell for each size, count, method and direction."""
        sizes = self.sizes
        if sizes is None:
            sizes = rising_sizes(size_of(self.smallest), size_of(self.largest), STEP)
        if not machine.gpus or machine.described:
            raise missing_part(
                machine,
                f"machine {machine.name!r} has no GPU here to copy to and from; "
                f"{command('check')} measures host memory",
            )
        gpus = chosen_gpus(machine, self.gpus)
        methods = tuple(Submission) if self.methods is None else self.methods
        experiments = small_experiments(
            machine, gpus, [size_of(size) for size in sizes], self.counts, methods
        )
        return Work(experiments)

    @classmethod
    def conclusion(cls, run: Run) -> str | None:
        """Return how many cells were mapped, and which of them are wrong."""
        return small_conclusion(run.results)

    @classmethod
    def report(cls, run: Run) -> Sequence[Section]:
        """Return a grid for each path, and below it what it says."""
        maps = small_maps(run.results)
        if not maps:
            return ()
        blocks: list[Block] = []
        for one in maps:
            blocks += [_table(one), Bullets(map_sentences(one)), small_chart(one)]
        legend = Text(EXPLANATION, Style.QUIET)
        return (Section("small", "Maps of small copies", [*blocks, legend]),)


def _table(small: SmallMap) -> Table:
    """Return a row for each size and a column for each count: the fastest method, and GB/s."""
    columns = [Column("size of a piece", Kind.BYTES)]
    columns += [Column(count_text(n, "piece")) for n in small.counts]
    rows: list[list[Value | Cell]] = [
        [size, *(_cell(small, count, size) for count in small.counts)] for size in small.sizes
    ]
    return Table(f"{small.path}: fastest method and its bandwidth in GB/s", columns, [Group(rows)])


def _cell(small: SmallMap, count: int, size: int) -> Cell:
    first, *below = cell_lines(small.cells.get((count, size))) or (None,)
    return Cell(first, below=tuple(filter(None, below)))
