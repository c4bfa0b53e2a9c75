"""``bench streams``: how many copies at once it takes to fill a path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, experiment_of
from lanescope.copies.place import Memory, Place
from lanescope.copies.requirements import chosen_gpus, require_fits
from lanescope.document.blocks import Cell, Column, Group, Kind, Section, Table
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError
from lanescope.machine import Gpu, Machine
from lanescope.report.format import count_text
from lanescope.results.result import Result
from lanescope.store.run import Run
from lanescope.studies.options import MOST_PARTS, gpu_option, size_option
from lanescope.studies.runs.paths import source_word
from lanescope.studies.study import Option, Study, Work
from lanescope.units.sizes import Size, size_of
from lanescope.units.values import Numbers

#: Share of the best that counts as all of it.
FULL_SHARE = 0.98


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
        Option(
            Numbers("--counts", 1, MOST_PARTS, "1,2,8"), "N,N,...", "Copies at once.", "1,2,4,8"
        ),
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
        (Cell(n), Cell(r.total_gbs, strong=True), share, share)
        for n, r in found.items()
        if (share := (r.total_gbs or 0.0) / best) > 0
    ]
    return Table(f"{path}: {word} bandwidth by number of copies at once", columns, [Group(rows)])
