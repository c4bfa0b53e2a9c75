"""Which blocks of an array tell the codec that makes it smallest."""

from __future__ import annotations

import numpy as np

#: Of a block, which codecs keep apart from the others.
BLOCK_BYTES = 64 << 10
_BLOCKS = 8


def sampled_begins(size: int) -> list[int] | None:
    """Return where some whole blocks of an array of `size` bytes begin, spread over it.

    None: it has so few that all of it is looked at.
    """
    blocks = size // BLOCK_BYTES
    if blocks <= _BLOCKS:
        return None
    places = np.linspace(0, blocks - 1, _BLOCKS).astype(int)
    return [int(place) * BLOCK_BYTES for place in places]
