"""``bench small``: many small copies, and how best to hand them over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lanescope.backend.sampling import Plan
from lanescope.calls import checked
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
from lanescope.experiment import Submission
from lanescope.experiment.requirements import chosen_gpus, missing_part
from lanescope.experiment.small import (
    COUNTS,
    LARGEST_BYTES,
    MOST_PIECES,
    SMALLEST_BYTES,
    small_experiments,
    stepped_sizes,
)
from lanescope.machine import Machine
from lanescope.report.format import count_text
from lanescope.run.run import Run
from lanescope.studies.options import gpu_option, size_option
from lanescope.studies.small_chart import small_chart
from lanescope.studies.small_maps import SmallMap, small_maps
from lanescope.studies.small_text import EXPLANATION, cell_lines, map_sentences, small_conclusion
from lanescope.studies.study import Option, Study, Work
from lanescope.units.sizes import Size, size_of
from lanescope.units.values import Numbers, OneOf


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
            "N,N,...",
            "Numbers of pieces, up to 4096.",
            "1,8,64,512,4096",
        ),
    ] = COUNTS
    methods: Annotated[
        Sequence[Submission] | None,
        Option(
            OneOf("--method", _methods),
            "NAME",
            "single, batch, graph, kernel or mapped; may be repeated; default all.",
            repeated=True,
        ),
    ] = None
    gpus: Annotated[int | Sequence[int] | None, gpu_option("GPU to map")] = None

    def work(self, machine: Machine) -> Work:
        """Return a cell for each size, count, method and direction."""
        sizes = self.sizes
        if sizes is None:
            sizes = stepped_sizes(size_of(self.smallest), size_of(self.largest))
        if not machine.gpus or machine.described:
            raise missing_part(
                machine,
                f"machine {machine.name!r} has no GPU here to copy to and from; "
                "'lanescope check' measures host memory",
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
