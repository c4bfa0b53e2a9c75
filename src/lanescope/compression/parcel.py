"""Arrays that a channel brought to the host's memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lanescope.compression.deciding import Decision
from lanescope.compression.transfers import core_errors


@dataclass(frozen=True, slots=True)
class Parcel:
    """An array that `Channel.offload` brought to the host's memory; freed with its last reference.

    Attributes
    ----------
    shape, dtype, framework
        Of the array: the type is the framework's own, which is ``torch`` or ``cupy``.
    tag
        As it was given.
    decision
        How it is stored.
    """

    shape: tuple[int, ...]
    dtype: Any
    framework: str
    tag: str
    decision: Decision
    kind: str
    held: Any = field(repr=False)

    @property
    def bytes(self) -> int:
        """Of the array."""
        return int(self.held.bytes)

    @property
    def stored_bytes(self) -> int:
        """Bytes of what is stored; waits for the end of the offload."""
        with core_errors():
            return int(self.held.stored_bytes())

    @property
    def ratio(self) -> float:
        """Bytes of the array over those that are stored; waits likewise."""
        return self.bytes / self.stored_bytes if self.bytes else 1.0
