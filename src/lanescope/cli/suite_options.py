"""Options of the micro-benchmarks of TARUC, and how their texts become values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from lanescope.errors import InputError

Word = TypeVar("Word", bound=StrEnum)

MinOption = Annotated[str | None, typer.Option("--min", metavar="SIZE", help="Smallest size.")]
MaxOption = Annotated[str | None, typer.Option("--max", metavar="SIZE", help="Largest size.")]
StepsOption = Annotated[
    int,
    typer.Option(
        "--steps-per-decade", min=1, max=100, metavar="N", help="Sizes for each power of ten."
    ),
]
MemoryOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="Kind of memory, such as pageable, pinned or huge; may be repeated; default: those "
        "that the machine has.",
    ),
]
PatternOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="repeated, ascending, descending or random blocks; may be repeated; default: all, "
        "up to the size of the caches.",
    ),
]
NodeOption = Annotated[
    list[int] | None,
    typer.Option(metavar="N", help="NUMA node of the memory; may be repeated; default: all."),
]
GpuOption = Annotated[
    list[int] | None, typer.Option(metavar="N", help="GPU; may be repeated; default: all.")
]
BudgetOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="Sampling time for one point, at most.")
]
ListOption = Annotated[
    bool, typer.Option("--list", help="List the points with what they may take, and end.")
]


def words(option: str, texts: Sequence[str] | None, known: type[Word]) -> tuple[Word, ...] | None:
    """Return what the words of an option stand for; None when it was not given.

    Raises
    ------
    InputError
        If one is not known.
    """
    if not texts:
        return None
    for text in texts:
        if text not in list(known):
            raise InputError(f"{option} {text!r} is not known; use one of {', '.join(known)}")
    return tuple(known(text) for text in dict.fromkeys(texts))


def numbers(given: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the numbers of a repeatable option, each once; None when it was not given."""
    return tuple(dict.fromkeys(given)) if given else None


def size(text: str | None) -> int | None:
    """Return a size in bytes; None where none was given."""
    from lanescope.experiment.sizes import parse_size

    return None if text is None else parse_size(text)
