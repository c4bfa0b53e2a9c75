"""Copies and places as the compiled core takes them."""

from __future__ import annotations

from lanescope._core import native
from lanescope.copies import Caches, Copy, Place, Route
from lanescope.copies.kernel_shapes import SmShape
from lanescope.copies.operation import PLAIN, Operation
from lanescope.machine.part_names import own_number, part_number

_WORK = {Operation.READ: native.SmWork.read, Operation.WRITE: native.SmWork.write}


def place_spec(place: Place) -> native.PlaceSpec:
    """Return a place as the core takes it."""
    kind = str(place.memory).replace("-", "_")
    return native.PlaceSpec(getattr(native.Memory, kind), place.own_index)


def device_of(copy: Copy) -> int:
    """Return the number, on its node, of the GPU whose engine works; host threads have none."""
    assert copy.executing_gpu is not None, "host threads have a session of their own"
    return own_number(part_number(copy.executing_gpu))


def copy_spec(copy: Copy, shape: SmShape | None = None) -> native.CopySpec:
    """Return a copy as the core takes it; `shape` is that of its kernel, if it has one."""
    sm = None
    if shape is not None:
        step = -1 if shape.in_step_with is None else shape.in_step_with
        sm = native.SmShape(
            shape.sms,
            shape.chunk_bytes,
            shape.pace_gbs,
            step,
            shape.chunk_repeats,
            _WORK.get(copy.operation, native.SmWork.copy),
        )
    ends = place_spec(copy.source), place_spec(copy.destination)
    access = copy.access or PLAIN
    return native.CopySpec(
        *ends,
        copy.bytes,
        device_of(copy),
        list(copy.cpus),
        sm,
        span_bytes=copy.span_bytes,
        pattern=getattr(native.BlockPattern, str(access.pattern)),
        flushed=access.caches is Caches.FLUSHED,
        route=getattr(native.Route, str(copy.route or Route.UVA)),
    )
