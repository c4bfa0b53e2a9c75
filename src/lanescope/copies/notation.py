"""Copies as text, in the language of ``lanescope copy``."""

from __future__ import annotations

from collections.abc import Iterable

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.place import Memory, Place
from lanescope.machine.part_names import is_gpu
from lanescope.units.sizes import exact_size_text

#: Of a copy that names no size: enough to fill any link.
DEFAULT_BYTES = 512 << 20

#: Stands for a value that is left to lanescope, where a later one is given.
AUTOMATIC = "auto"


def usual_memory(part: str, engine: Engine) -> Memory:
    """Return the kind of memory of a place that names none."""
    if is_gpu(part):
        return Memory.DEVICE
    return Memory.PAGEABLE if engine is Engine.CPU else Memory.PINNED


def copies_text(copies: Iterable[Copy]) -> str:
    """Return a set of copies as text that `parse_copies` reads back.

    CPUs are left out: who names none gets those next to the memory.
    """
    return ", ".join(map(_copy_text, copies))


def _copy_text(copy: Copy) -> str:
    words = [
        _place_text(copy.source, copy.engine),
        "->",
        _place_text(copy.destination, copy.engine),
    ]
    if copy.operation is not Operation.COPY:
        words.append(f"@{copy.operation}")
    elif copy.engine is Engine.SM:
        words.append("@" + _sm_text(copy))
    elif copy.engine is not Engine.CE:
        words.append(f"@{copy.engine}")
    if copy.executor is not None:
        words += ["by", copy.executor]
    if copy.bytes != DEFAULT_BYTES:
        words.append(exact_size_text(copy.bytes))
    return " ".join(words)


def _sm_text(copy: Copy) -> str:
    values = [
        None if copy.sms is None else str(copy.sms),
        None if copy.chunk_bytes is None else _chunk_text(copy.chunk_bytes),
        None if copy.pace_gbs is None else _rate_text(copy.pace_gbs),
        None if copy.chunk_repeats is None else str(copy.chunk_repeats),
    ]
    while values and values[-1] is None:
        values.pop()
    return ":".join(["sm", *(value or AUTOMATIC for value in values)])


def _chunk_text(chunk_bytes: int) -> str:
    return exact_size_text(chunk_bytes) if chunk_bytes else "0"


def _rate_text(gbs: float) -> str:
    """Return a rate without an exponent, which is no part of the language."""
    return f"{gbs:.6f}".rstrip("0").rstrip(".")


def _place_text(place: Place, engine: Engine) -> str:
    usual = usual_memory(place.part, engine)
    return place.part if place.memory is usual else f"{place.part}.{place.memory}"
