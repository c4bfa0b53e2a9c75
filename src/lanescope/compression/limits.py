"""How large the array of a stream may be that comes from a stranger."""

from __future__ import annotations

from lanescope.errors import InputError
from lanescope.units.sizes import size_text


def require_size(size: int, most: int | None, what: str = "the stream") -> None:
    """Refuse what becomes larger than its reader wants, before there is memory for it.

    Raises
    ------
    InputError
        If it does.
    """
    if most is not None and size > most:
        raise InputError(
            f"{what} becomes {size_text(size)} when it is decompressed, and at most "
            f"{size_text(most)} are allowed; allow more if you trust it"
        )
