"""How channels work by themselves: slabs, slots for them, and SMs."""

from __future__ import annotations

from dataclasses import dataclass, replace

_MIB = 1 << 20
#: Blocks of 64 KiB that 80 SMs code at a time: so much lies between what is read and what is
#: decoded.
_AT_ONCE_BYTES = 20 * _MIB


@dataclass(frozen=True, slots=True)
class Shape:
    """How a channel works, by measurement on H200s.

    Attributes
    ----------
    slab_bytes
        Of the array, that one kernel codes.
    slots
        Slabs that the receiving side has room for.
    sms
        On each side, 0: as many as fill the link, and all to decode what another GPU sends.
    fill_bytes
        How much is coded before all parts of the pipeline are at work, at most.
    """

    slab_bytes: int
    slots: int
    sms: int
    fill_bytes: int


TO_HOST = Shape(16 * _MIB, 4, 0, 8 * _MIB)
TO_GPU = Shape(128 * _MIB, 2, 0, _AT_ONCE_BYTES)
OVER_HOST = Shape(32 * _MIB, 4, 0, 8 * _MIB)


def shape_of(usual: Shape, slab_bytes: int | None, slots: int | None, sms: int | None) -> Shape:
    """Return the usual shape with what was given in its place."""
    given = {"slab_bytes": slab_bytes, "slots": slots, "sms": sms}
    shape = replace(usual, **{name: one for name, one in given.items() if one is not None})
    return replace(shape, fill_bytes=min(shape.fill_bytes, max(shape.slab_bytes, 1)))
