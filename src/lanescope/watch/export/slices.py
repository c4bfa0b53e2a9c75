"""What slices of operations are called, and what is annotated to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lanescope.units.bandwidth import bandwidths_gbs
from lanescope.watch.codes import Direction, MemoryKind, What
from lanescope.watch.operations import Operations

if TYPE_CHECKING:
    from lanescope.watch.export.packets import Writer

#: Names of annotations.
LABELS = ("bytes", "GB/s", "from", "to", "asynchronous", "correlation")
_BYTES, _GBS, _FROM, _TO, _ASYNCHRONOUS, _CORRELATION = LABELS
#: Stands for a call of which only the operation's own name is known.
CALL = "call"
_WORDS = {
    (int(what), int(way)): what.name.lower() + (f" {way.label}" if way else "")
    for what in What
    for way in Direction
}


def slice_names(operations: Operations) -> list[str]:
    """Return what each operation's slice is called, such as ``copy h2d`` or a kernel's name."""
    columns = (operations.what, operations.direction, operations.name)
    return [
        (what == What.KERNEL and operations.names[name]) or _WORDS[what, direction]
        for what, direction, name in zip(*(column.tolist() for column in columns), strict=True)
    ]


def texts_of(operations: Operations) -> tuple[str, ...]:
    """Return all texts that slices of operations and of their calls can use."""
    kinds = tuple(kind.label for kind in MemoryKind)
    named = tuple(name for name in operations.names if name)
    return (CALL, *kinds, *named, *_WORDS.values())


def annotated(rows: Operations, writer: Writer) -> Iterator[list[tuple[int, str, Any]]]:
    """Yield the annotations of each row: bytes, GB/s and kinds of memory where there are any."""
    label = writer.label
    kinds = [writer.text[kind.label] for kind in MemoryKind]
    rates = bandwidths_gbs(rows.bytes.astype(np.float64), rows.seconds)
    for moves, sized, size, rate, source, destination, freely, number in zip(
        rows.moves.tolist(),
        (rows.what != What.KERNEL).tolist(),
        rows.bytes.tolist(),
        rates.tolist(),
        rows.source_kind.tolist(),
        rows.destination_kind.tolist(),
        rows.asynchronous.tolist(),
        rows.correlation.tolist(),
        strict=True,
    ):
        told: list[tuple[int, str, Any]] = []
        if sized:
            told.append((label[_BYTES], "int_value", size))
            if not math.isnan(rate):
                told.append((label[_GBS], "double_value", rate))
        if moves:
            told.append((label[_FROM], "string_value_iid", kinds[source]))
            told.append((label[_TO], "string_value_iid", kinds[destination]))
            told.append((label[_ASYNCHRONOUS], "bool_value", freely))
        told.append((label[_CORRELATION], "int_value", number))
        yield told
