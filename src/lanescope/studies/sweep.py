"""``bench sweep`` and ``bench streams``: sizes of copies, and numbers of them, that fill a link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, Purpose, Timing, experiment_of
from lanescope.copies.requirements import chosen_gpus, largest_sweep_bytes, require_fits
from lanescope.copies.terms import Memory, Place
from lanescope.document.blocks import Column, Group, Kind, Section, Table, TableCell
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError, argument
from lanescope.machine import Gpu, Machine
from lanescope.report.format import count_text
from lanescope.results import Result
from lanescope.store.run import Run
from lanescope.studies import MOST_PARTS, gpu_option, size_option
from lanescope.studies.check import host_copy
from lanescope.studies.runs.rows import source_word
from lanescope.studies.study import Option, Study, Work
from lanescope.units.sizes import Size, rising_sizes, size_of, size_text
from lanescope.units.values import Numbers, OneOf

_MEMORIES = (Memory.PINNED, Memory.PAGEABLE)
#: Share of the best that counts as all of it.
FULL_SHARE = 0.98


def _memories() -> Sequence[str]:
    return _MEMORIES


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Sweep(Study):
    """Sweep copy sizes between host and GPU: delay, plateau, size that fills the link.

    Sizes double. Pinned memory is timed by GPU events and by the host's clock,
    pageable memory by the host's clock.

    Attributes
    ----------
    smallest, largest
        Bytes of a copy; None is 2 GiB, or what memory allows.
    sizes
        Bytes of a copy, instead of these.
    gpus
        Numbers of the GPUs; None takes the first.
    memories
        Kinds of host memory; None takes both.
    """

    verb: ClassVar[str] = "sweep"
    title: ClassVar[str] = "Sweep"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.2)
    of_what: ClassVar[str] = "one size"

    smallest: Annotated[Size, size_option("Smallest copy.", "16B", "--min")] = 16
    largest: Annotated[
        Size | None, size_option("Largest copy; default 2GiB or what fits.", None, "--max")
    ] = None
    sizes: Sequence[Size] | None = None
    gpus: Annotated[int | Sequence[int] | None, gpu_option("GPU to sweep")] = None
    memories: Annotated[
        Sequence[Memory] | None,
        Option(
            OneOf("--memory", _memories),
            "Host memory: pinned or pageable; default both.",
            metavar="KIND",
            repeated=True,
        ),
    ] = None

    def work(self, machine: Machine) -> Work:
        """Return a copy for each size, direction and kind of memory."""
        gpus = chosen_gpus(machine, self.gpus)
        if self.sizes is None:
            sizes = self._doubling(largest_sweep_bytes(machine, gpus))
        else:
            sizes = tuple(size_of(size) for size in self.sizes)
            require_fits(machine, max(sizes, default=0), gpus)
        memories = _MEMORIES if self.memories is None else self.memories
        return Work(sweep_experiments(machine, gpus, sizes, memories))

    def _doubling(self, most: int) -> tuple[int, ...]:
        first = size_of(self.smallest)
        last = most if self.largest is None else size_of(self.largest)
        if max(first, last) > most:
            name, size = ("largest", last) if last > most else ("smallest", first)
            raise InputError(
                f"a copy of {size_text(size)} does not fit: at most {size_text(most)}, a quarter "
                f"of the smallest memory on the way; lower {getattr(argument, name)}"
            )
        return rising_sizes(first, last)


def sweep_experiments(
    machine: Machine,
    gpus: Iterable[Gpu],
    sizes: Sequence[int],
    memories: Iterable[Memory] = (Memory.PINNED, Memory.PAGEABLE),
) -> tuple[Experiment, ...]:
    """Return host to GPU and GPU to host for every size and kind of host memory.

    Pinned memory is timed twice: by events on the GPU, which tells what the link
    does, and by the host's clock, which tells what a program waits for. The
    driver stages pageable memory inside the call, so only the host's clock sees
    such a copy whole. The largest sizes come first, so that buffers are made once.
    What is named twice is measured once: names are unique within a run.
    """
    memories = tuple(dict.fromkeys(memories))
    if not sizes or not memories:
        missing = "kind of memory" if sizes else "size"
        raise InputError(f"a sweep without any {missing} cannot be measured; give at least one")
    kinds = [(memory, Timing.HOST) for memory in memories]
    kinds[:0] = [(memory, Timing.GATE) for memory in memories if memory is Memory.PINNED]
    experiments = []
    for gpu in dict.fromkeys(gpus):
        for memory, timing in kinds:
            for down in (True, False):
                for size in sorted(set(sizes), reverse=True):
                    experiments.append(_sweep_point(machine, gpu, memory, timing, down, size))
    return tuple(experiments)


def _sweep_point(
    machine: Machine, gpu: Gpu, memory: Memory, timing: Timing, down: bool, size: int
) -> Experiment:
    copy = host_copy(machine, gpu, memory, down, size)
    direction = "h2d" if down else "d2h"
    clock = "events" if timing is Timing.GATE else "host-clock"
    return Experiment(
        name=f"sweep/{direction}/{gpu.id}/{memory}/{clock}/{size}",
        title=f"{copy.path}, {memory}, {clock}, {size} B",
        copies=(copy,),
        timing=timing,
        purpose=Purpose.SWEEP,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Streams(Study):
    """Find how many copies at once it takes to fill a path, for each direction of a GPU.

    The same bytes between pinned memory and the GPU, as one copy and in equal parts on as many
    streams. Where two are faster than one, one alone leaves the link idle between copies.

    Attributes
    ----------
    gpus
        Numbers of the GPUs; None takes the first.
    size_bytes
        Bytes of all copies together.
    counts
        Numbers of copies at once.
    """

    verb: ClassVar[str] = "streams"
    title: ClassVar[str] = "Copies at once"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.3)
    judges_paths: ClassVar[bool] = False
    of_what: ClassVar[str] = "one set of copies"

    gpus: Annotated[int | Sequence[int] | None, gpu_option("GPU to try")] = None
    size_bytes: Annotated[Size, size_option("Bytes of all copies together.", "64MiB")] = 64 << 20
    counts: Annotated[
        Sequence[int],
        Option(Numbers("--counts", 1, MOST_PARTS, "1,2,8"), "Copies at once.", "1,2,4,8"),
    ] = (1, 2, 4, 8)

    def work(self, machine: Machine) -> Work:
        """Return each number of copies, in each direction."""
        gpus, size = chosen_gpus(machine, self.gpus), size_of(self.size_bytes)
        require_fits(machine, size, gpus)
        if wrong := [count for count in self.counts if not 1 <= count <= MOST_PARTS]:
            raise InputError(f"counts: {wrong[0]} copies at once cannot be; give 1 to {MOST_PARTS}")
        if size < max(self.counts, default=1):
            raise InputError(
                f"size_bytes: {size} B are none for each of {max(self.counts)} copies; give more"
            )
        return Work(
            [
                _experiment(machine, gpu, down, size, count)
                for gpu in gpus
                for down in (True, False)
                for count in sorted(set(self.counts))
            ]
        )

    @classmethod
    def conclusion(cls, run: Run) -> str | None:
        """Return the fewest copies that fill each path."""
        fewest = [f"{path} by {_fewest(found)}" for path, found in _by_path(run.results)]
        return (
            f"Filled to {FULL_SHARE * 100:.0f} % of the best: {', '.join(fewest)}."
            if fewest
            else None
        )

    @classmethod
    def report(cls, run: Run) -> Sequence[Section]:
        """Return a table for each path."""
        return [Section("streams", cls.title, [_table(*one) for one in _by_path(run.results)])]


def _experiment(machine: Machine, gpu: Gpu, down: bool, size: int, count: int) -> Experiment:
    host, here = Place(machine.nearest_node(gpu).id, Memory.PINNED), Place(gpu.id, Memory.DEVICE)
    ends = (host, here) if down else (here, host)
    return experiment_of([Copy(*ends, size // count, Engine.CE)] * count)


def _by_path(results: Iterable[Result]) -> list[tuple[str, dict[int, Result]]]:
    """Return the results of each path by their number of copies, where they have rates."""
    found: dict[str, dict[int, Result]] = defaultdict(dict)
    for result in results:
        if result.total_gbs is not None:
            found[result.experiment.copies[0].path][len(result.copies)] = result
    return list(found.items())


def _fewest(found: dict[int, Result]) -> str:
    best = max(result.total_gbs or 0.0 for result in found.values())
    fewest = min(n for n, r in found.items() if (r.total_gbs or 0.0) >= FULL_SHARE * best)
    return count_text(fewest, "copy", "copies")


def _table(path: str, found: dict[int, Result]) -> Table:
    word = source_word(found.values())
    best = max(result.total_gbs or 0.0 for result in found.values())
    columns = (
        Column("copies at once", Kind.COUNT),
        Column("GB/s together", Kind.GBS, "Median of what all carried in the same time"),
        Column("of the best", Kind.SHARE),
        Column("", Kind.BAR),
    )
    rows = [
        (TableCell(n), TableCell(r.total_gbs, strong=True), share, share)
        for n, r in found.items()
        if (share := (r.total_gbs or 0.0) / best) > 0
    ]
    return Table(f"{path}: {word} bandwidth by number of copies at once", columns, [Group(rows)])
