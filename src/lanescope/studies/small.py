"""``bench small``: many small copies, and how best to hand them over."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.requirements import chosen_gpus, missing_part
from lanescope.copies.terms import Memory, Place, Submission
from lanescope.document.blocks import (
    Block,
    Bullets,
    Column,
    Group,
    Kind,
    Section,
    Style,
    Table,
    TableCell,
    Text,
    Value,
)
from lanescope.document.contents import Axis, HeatCell, HeatMap
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError, command
from lanescope.machine import Gpu, Machine
from lanescope.report.format import bytes_text, count_text, gbs_text, percent_text, seconds_text
from lanescope.results import CopyResult, Result
from lanescope.store.run import Run
from lanescope.studies import gpu_option, size_option
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
#: Methods after which the bytes are where they should be, so that one can stand for another.
COPYING = (Submission.SINGLE, Submission.BATCH, Submission.GRAPH, Submission.KERNEL)
#: A gain that is worth another method, as a share of the time.
RELEVANT = 0.03
#: How many times as long smaller pieces must take to be worth a sentence.
INVERTED = 1.1
#: When nearly all of the time is spent in the call, it is not the GPU that is waited for.
_BY_THE_THREAD = 0.8
#: Marks a cell in which another method may be as fast.
TIE = "~"
EXPLANATION = (
    f"{TIE}: another method is as fast, as far as the 95 % confidence intervals tell. mapped "
    "copies nothing: a kernel uses the data in host memory; where it leads, the fastest copy "
    "stands below."
)
#: Light enough for dark text in both themes; each cell also names its method.
METHOD_COLOURS = {
    Submission.SINGLE: "#c9ced6",
    Submission.BATCH: "#8cc5e8",
    Submission.GRAPH: "#f0c27b",
    Submission.KERNEL: "#8fd3b6",
    Submission.MAPPED: "#dcb3d6",
}


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
    rows: list[list[Value | TableCell]] = [
        [size, *(_fastest_cell(small, count, size) for count in small.counts)]
        for size in small.sizes
    ]
    return Table(f"{small.path}: fastest method and its bandwidth in GB/s", columns, [Group(rows)])


def _fastest_cell(small: SmallMap, count: int, size: int) -> TableCell:
    first, *below = cell_lines(small.cells.get((count, size))) or (None,)
    return TableCell(first, below=tuple(filter(None, below)))


@dataclass(frozen=True, slots=True)
class SmallCell:
    """So many pieces of such a size, moved one way by several methods.

    Attributes
    ----------
    pieces, piece_bytes
        How many, and bytes of one.
    by_method
        What was measured.
    """

    pieces: int
    piece_bytes: int
    by_method: Mapping[Submission, CopyResult]

    def fastest(self, methods: Sequence[Submission] = tuple(Submission)) -> Submission | None:
        """Return the method with the smallest median; None when none was measured."""
        known = [m for m in methods if m in self.by_method]
        return min(known, key=self.seconds, default=None)

    def seconds(self, method: Submission) -> float:
        """Return the median time of all pieces together, in seconds."""
        return self.by_method[method].statistics.median_seconds

    def is_faster(self, method: Submission, other: Submission) -> bool:
        """Whether a method is faster than another by more than both intervals of the median."""
        ours, theirs = (self.by_method[m].statistics for m in (method, other))
        if ours.half_width is None or theirs.half_width is None:
            return False
        slowest = ours.median_seconds * (1 + ours.half_width)
        return slowest < theirs.median_seconds * (1 - theirs.half_width)

    def ties(self, methods: Sequence[Submission] = tuple(Submission)) -> tuple[Submission, ...]:
        """Return the methods that may be as fast as the fastest, for all that is known."""
        best = self.fastest(methods)
        others = (m for m in methods if m in self.by_method and m is not best)
        return tuple(m for m in others if best is not None and not self.is_faster(best, m))

    def submit_share(self, method: Submission) -> float | None:
        """Return the share of the time until the last call returned; None when not timed."""
        submit = self.by_method[method].submit_seconds
        return None if submit is None else submit / self.seconds(method)


@dataclass(frozen=True, slots=True)
class SmallMap:
    """All cells of one path.

    Attributes
    ----------
    path
        Such as ``h0 → g0``.
    counts, sizes
        What was asked for, ascending.
    cells
        By count and size; cells that were left out or not measured are missing.
    """

    path: str
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    cells: Mapping[tuple[int, int], SmallCell]

    @property
    def methods(self) -> tuple[Submission, ...]:
        """The methods that were measured in some cell."""
        return tuple(m for m in Submission if any(m in c.by_method for c in self.cells.values()))

    @property
    def copying(self) -> tuple[Submission, ...]:
        """Those of them that copy; all of them when none does."""
        return tuple(m for m in self.methods if m in COPYING) or self.methods


@dataclass(frozen=True, slots=True)
class Regime:
    """A method that is the fastest from a size or a count on.

    Attributes
    ----------
    method
        The method.
    first
        The first size in bytes, or count, at which it was measured to be.
    """

    method: Submission
    first: int


@dataclass(frozen=True, slots=True)
class Inversion:
    """A method by which a piece takes longer than a larger one.

    Attributes
    ----------
    method
        The method.
    smaller, larger
        Cells of as many pieces, of neighbouring sizes.
    """

    method: Submission
    smaller: SmallCell
    larger: SmallCell

    @property
    def factor(self) -> float:
        """How many times as long the smaller pieces take."""
        return self.smaller.seconds(self.method) / self.larger.seconds(self.method)


def small_maps(results: Iterable[Result]) -> tuple[SmallMap, ...]:
    """Return a map for each path of which cells were measured."""
    found: dict[str, dict[tuple[int, int], dict[Submission, CopyResult]]] = defaultdict(dict)
    for result in results:
        if result.experiment.purpose is Purpose.SMALL and result.copies:
            copy = result.copies[0].copy
            cell = found[copy.path].setdefault((copy.pieces, copy.bytes // copy.pieces), {})
            cell[copy.submission] = result.copies[0]
    return tuple(
        SmallMap(
            path=path,
            counts=tuple(sorted({count for count, _ in cells})),
            sizes=tuple(sorted({size for _, size in cells})),
            cells={key: SmallCell(*key, by_method) for key, by_method in cells.items()},
        )
        for path, cells in found.items()
    )


def regimes_by_size(
    small: SmallMap, count: int, methods: Sequence[Submission]
) -> tuple[Regime, ...]:
    """Return which method is the fastest from which size on, for a number of pieces."""
    return regimes([(s, small.cells.get((count, s))) for s in small.sizes], methods)


def regimes_by_count(
    small: SmallMap, size: int, methods: Sequence[Submission]
) -> tuple[Regime, ...]:
    """Return which method is the fastest from which count on, for a size of a piece."""
    return regimes([(n, small.cells.get((n, size))) for n in small.counts], methods)


def regimes(
    line: Sequence[tuple[int, SmallCell | None]], methods: Sequence[Submission]
) -> tuple[Regime, ...]:
    """Return the regimes along a line of cells, ascending.

    A method keeps its place until another is faster by more than the confidence
    intervals of both and by more than `RELEVANT`, so that noise makes no crossover and
    nobody is told to change for a percent.
    """
    found: list[Regime] = []
    for value, cell in line:
        best = cell.fastest(methods) if cell is not None else None
        if cell is None or best is None:
            continue
        holder = found[-1].method if found else None
        if holder is best:
            continue
        if holder is None or holder not in cell.by_method or _is_worth_it(cell, best, holder):
            found.append(Regime(best, value))
    return tuple(found)


def _is_worth_it(cell: SmallCell, best: Submission, holder: Submission) -> bool:
    gain = cell.seconds(holder) / cell.seconds(best) - 1
    return cell.is_faster(best, holder) and gain > RELEVANT


def inversions(small: SmallMap) -> tuple[Inversion, ...]:
    """Return for each copying method where smaller pieces take longer than larger ones.

    Only what is more than `INVERTED` longer counts: a step in how the driver moves the
    bytes, and not noise. Of several the one with the most pieces, and then the worst.
    """
    found = (
        [i for i in _neighbours(small, method) if i.factor > INVERTED] for method in small.copying
    )
    return tuple(max(some, key=lambda i: (i.smaller.pieces, i.factor)) for some in found if some)


def _neighbours(small: SmallMap, method: Submission) -> Iterator[Inversion]:
    for count in small.counts:
        for size, larger in pairwise(small.sizes):
            cells = [small.cells.get((count, s)) for s in (size, larger)]
            known = [c for c in cells if c is not None and method in c.by_method]
            if len(known) == 2:
                yield Inversion(method, *known)


def submit_shares(small: SmallMap) -> dict[Submission, float]:
    """Return the median over all cells of each method's share of time spent in its calls."""
    shares: dict[Submission, list[float]] = defaultdict(list)
    for cell in small.cells.values():
        for method in cell.by_method:
            share = cell.submit_share(method)
            if share is not None:
                shares[method].append(share)
    return {method: median(shares[method]) for method in Submission if shares[method]}


def largest_gain(small: SmallMap) -> tuple[SmallCell, Submission, float] | None:
    """Return where a copying method beats `single` the most, which one, and by what factor."""
    gains = [
        (cell, best, cell.seconds(Submission.SINGLE) / cell.seconds(best))
        for cell in small.cells.values()
        if Submission.SINGLE in cell.by_method
        and (best := cell.fastest(small.copying)) is not None
        and cell.is_faster(best, Submission.SINGLE)
    ]
    return max(gains, key=lambda gain: gain[2], default=None)


def cell_lines(cell: SmallCell | None) -> tuple[str, ...]:
    """Return the fastest method with its GB/s; below it the fastest copy, if that is another."""
    best = cell.fastest() if cell is not None else None
    if cell is None or best is None:
        return ()
    if best is not Submission.MAPPED:
        return (_leader(cell, tuple(Submission), best),)
    copies = tuple(m for m in Submission if m is not Submission.MAPPED)
    copy = cell.fastest(copies)
    below = () if copy is None else (_leader(cell, copies, copy),)
    return (_leader(cell, tuple(Submission), best), *below)


def map_sentences(small: SmallMap) -> tuple[str, ...]:
    """Return all that a map tells: crossovers, what there is to gain, the host's share."""
    return (
        *_crossovers_by_size(small),
        *_crossovers_by_count(small),
        *_gain(small),
        *_inversions(small),
        *_in_place(small),
        *_host_share(small),
    )


def small_conclusion(results: Sequence[Result]) -> str:
    """Return the outcome of a run of maps in one sentence."""
    maps = small_maps(results)
    if not maps:
        return "No small copy could be measured."
    cells = sum(len(small.cells) for small in maps)
    paths = " and ".join(small.path for small in maps)
    clauses = [f"Small copies of {count_text(cells, 'cell')} mapped for {paths}; none is judged"]
    if missing := sum(not result.copies for result in results):
        clauses.append(f"{count_text(missing, 'measurement is', 'measurements are')} missing")
    if wrong := [v for result in results for v in result.verdicts if v.failed]:
        many = count_text(len(wrong), "cell is", "cells are")
        clauses.append(f"{many} {wrong[0].status}: {wrong[0].reason}")
    return "; ".join(clauses) + "."


def _leader(cell: SmallCell, methods: Sequence[Submission], best: Submission) -> str:
    mark = TIE if cell.ties(methods) else ""
    return f"{best} {gbs_text(cell.by_method[best].gbs)}{mark}"


def _crossovers_by_size(small: SmallMap) -> Iterator[str]:
    lines = [(n, regimes_by_size(small, n, small.copying)) for n in small.counts]
    for counts, found in _merged(lines):
        which = count_text(counts[0], "piece")
        if len(counts) > 1:
            which = f"{counts[0]} to {count_text(counts[-1], 'piece')}"
        yield f"{small.path}, {which}: {_regimes_text(found, bytes_text, 'every size')}."


def _crossovers_by_count(small: SmallMap) -> Iterator[str]:
    lines = [(s, regimes_by_count(small, s, small.copying)) for s in small.sizes]
    for sizes, found in _merged(lines):
        which = bytes_text(sizes[0])
        if len(sizes) > 1:
            which += f" to {bytes_text(sizes[-1])}"
        words = _regimes_text(found, lambda n: count_text(int(n), "piece"), "every count")
        yield f"{small.path}, pieces of {which}: {words}."


def _merged(
    lines: Sequence[tuple[int, tuple[Regime, ...]]],
) -> Iterator[tuple[list[int], tuple[Regime, ...]]]:
    """Put neighbouring lines that tell the same together."""
    for key, group in itertools.groupby(lines, key=lambda line: _shape(line[1])):
        members = list(group)
        if key:
            yield [value for value, _ in members], members[0][1]


def _shape(found: tuple[Regime, ...]) -> tuple[object, ...]:
    """What makes two lines tell the same; where the first regime begins does not count."""
    return tuple((r.method, None if i == 0 else r.first) for i, r in enumerate(found))


def _regimes_text(found: Sequence[Regime], unit: Callable[[float], str], everywhere: str) -> str:
    if len(found) == 1:
        return f"{found[0].method} at {everywhere}"
    later = [f"{r.method} from {unit(r.first)}" for r in found[1:]]
    return f"{', '.join([f'{found[0].method} below {unit(found[1].first)}', *later])} on"


def _gain(small: SmallMap) -> Iterator[str]:
    gain = largest_gain(small)
    if gain is not None:
        cell, method, factor = gain
        where = f"{count_text(cell.pieces, 'piece')} of {bytes_text(cell.piece_bytes)}"
        yield (
            f"{small.path}: most to gain with {where}, where {method} is {gbs_text(factor)} times "
            "as fast as single."
        )


def _inversions(small: SmallMap) -> Iterator[str]:
    for found in inversions(small):
        count = found.smaller.pieces
        took = [_piece_text(c, found.method) for c in (found.smaller, found.larger)]
        share = found.smaller.submit_share(found.method) or 0.0
        why = (
            f", and {percent_text(share)} of the former is spent in the call: it is the calling "
            "thread that moves so small pieces"
            if share > _BY_THE_THREAD
            else ""
        )
        yield (
            f"{small.path}: by {found.method} a piece of {took[0]} and one of {took[1]} "
            f"({count_text(count, 'piece')} each){why}."
        )


def _piece_text(cell: SmallCell, method: Submission) -> str:
    seconds = cell.seconds(method) / cell.pieces
    return f"{bytes_text(cell.piece_bytes)} takes {seconds_text(seconds)}"


def _in_place(small: SmallMap) -> Iterator[str]:
    both = [c for c in small.cells.values() if Submission.MAPPED in c.by_method]
    pairs = [(c, c.fastest(small.copying)) for c in both if small.copying != small.methods]
    known = [(c, best) for c, best in pairs if best is not None]
    if known:
        ahead = sum(c.is_faster(Submission.MAPPED, best) for c, best in known)
        yield (
            f"{small.path}: using the data in place (mapped) is faster than every copy of it in "
            f"{ahead} of {count_text(len(known), 'cell')}."
        )


def _host_share(small: SmallMap) -> Iterator[str]:
    shares = submit_shares(small)
    if shares:
        listed = ", ".join(f"{method} {percent_text(share)}" for method, share in shares.items())
        yield f"{small.path}: share of the time spent in the calls, median of all cells: {listed}."


def small_chart(small: SmallMap) -> HeatMap:
    """Return the heat map of one path, coloured by the fastest method."""
    fastest = {cell.fastest() for cell in small.cells.values()}
    return HeatMap(
        f"small-{small.path.lower().replace(' → ', '-')}",
        "small",
        f"Fastest way to hand over small copies, {small.path}",
        "In each cell: the method and its GB/s; ~ where another may be as fast",
        Axis("Number of pieces"),
        Axis("Size of a piece"),
        tuple(str(count) for count in small.counts),
        tuple(bytes_text(size) for size in small.sizes),
        tuple(_cell(small.path, cell) for cell in small.cells.values()),
        {str(method): METHOD_COLOURS[method] for method in Submission if method in fastest},
    )


def _cell(path: str, cell: SmallCell) -> HeatCell:
    lines = [f"{path}, {cell.pieces} × {bytes_text(cell.piece_bytes)}"]
    for method in sorted(cell.by_method, key=cell.seconds):
        share = cell.submit_share(method)
        calls = "" if share is None else f", {percent_text(share)} of it in the calls"
        gbs = gbs_text(cell.by_method[method].gbs)
        lines.append(f"{method}: {gbs} GB/s, {seconds_text(cell.seconds(method))}{calls}")
    return HeatCell(
        str(cell.pieces),
        bytes_text(cell.piece_bytes),
        str(cell.fastest()),
        next(iter(cell_lines(cell)), ""),
        "\n".join(lines),
    )
