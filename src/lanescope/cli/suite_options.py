"""Options of the micro-benchmarks of TARUC, and how their texts become values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from lanescope.cli.options import budget_option, option, part_option, size_option, target_option
from lanescope.units.values import OneOf, Whole

Word = TypeVar("Word", bound=StrEnum)

#: Sampling time for one point in seconds, and the half-width that ends it sooner.
BUDGET, TARGET = 0.03, 0.01


def _memory() -> type[StrEnum]:
    from lanescope.experiment import Memory

    return Memory


def _pattern() -> type[StrEnum]:
    from lanescope.experiment import Pattern

    return Pattern


MinOption = Annotated[int | None, size_option("--min", "Smallest size.")]
MaxOption = Annotated[int | None, size_option("--max", "Largest size.")]
StepsOption = Annotated[
    int,
    option(
        Whole("--steps-per-decade", 1, 100, "more sizes are hardly different"),
        metavar="N",
        help="Sizes for each power of ten.",
        shown="1",
    ),
]
MemoryOption = Annotated[
    list[str] | None,
    option(
        OneOf("--memory", _memory),
        metavar="KIND",
        help="Kind of memory, such as pageable, pinned or huge; may be repeated; default: those "
        "that the machine has.",
    ),
]
PatternOption = Annotated[
    list[str] | None,
    option(
        OneOf("--pattern", _pattern),
        metavar="NAME",
        help="repeated, ascending, descending or random blocks; may be repeated; default: all, "
        "up to the size of the caches.",
    ),
]
NodeOption = Annotated[
    list[int] | None,
    part_option("--node", "NUMA node of the memory; may be repeated; default: all."),
]
GpuOption = Annotated[list[int] | None, part_option("--gpu", "GPU; may be repeated; default: all.")]
BudgetOption = Annotated[float, budget_option("Sampling time for one point, at most.", "0.03")]
TargetOption = Annotated[float, target_option("1%")]
ListOption = Annotated[
    bool, typer.Option("--list", help="List the points with what they may take, and end.")
]


def words(texts: Sequence[str] | None, known: type[Word]) -> tuple[Word, ...] | None:
    """Return what the words of an option stand for, each once; None when it was not given."""
    return tuple(known(text) for text in dict.fromkeys(texts)) if texts else None


def numbers(given: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the numbers of a repeatable option, each once; None when it was not given."""
    return tuple(dict.fromkeys(given)) if given else None
