"""How channels work by themselves: slabs, slots for them, SMs and lanes."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Shape:
    """How a channel works: slabs of the array, slots for them, SMs (0: all), slabs at a time.

    By measurement on H200s. A link between GPUs takes more than one to the host: all SMs, and
    slabs that begin while others end.
    """

    slab_bytes: int
    slots: int
    sms: int
    lanes: int = 1


TO_HOST = Shape(8 << 20, 4, 16)
TO_GPU = Shape(16 << 20, 12, 0, 6)


def shape_of(
    usual: Shape, slab_bytes: int | None, slots: int | None, sms: int | None, lanes: int | None
) -> Shape:
    """Return the usual shape with what was given in its place."""
    given = {"slab_bytes": slab_bytes, "slots": slots, "sms": sms, "lanes": lanes}
    return replace(usual, **{name: one for name, one in given.items() if one is not None})
