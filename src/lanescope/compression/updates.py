"""Updates in channels: an array as differences to one that the other side holds."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from lanescope._core import native
from lanescope.compression.deciding import Transfer, dtype_of
from lanescope.compression.gpu_arrays import GpuArray, LookedAt, gpu_array
from lanescope.compression.stream import Codec
from lanescope.errors import InputError

#: What stands before the path of an update: who decides learns of it apart from whole arrays.
_PREFIX = "update "


def path_of(path: str, base: GpuArray | None) -> str:
    """Return what a path is to who decides."""
    return path if base is None else _PREFIX + path


def base_array(base: Any, gpu: int, array: GpuArray) -> GpuArray | None:
    """Return the base of an array that is to travel, or None where there is none.

    Raises
    ------
    InputError
        If it lies elsewhere, or is of another type or shape.
    """
    if base is None:
        return None
    old = gpu_array(base, gpu, "the base")
    one, other = (str(a.values.dtype).removeprefix("torch.") for a in (old, array))
    if (one, old.shape) != (other, array.shape):
        raise InputError(
            f"the base is {one} of shape {old.shape}, and the array {other} of shape "
            f"{array.shape}; give the one that the other side holds"
        )
    return old


def require_base_there(out: Any, gpu: int | None) -> None:
    """Refuse an update for which nobody holds the base.

    Raises
    ------
    InputError
        If it is so.
    """
    if out is None:
        raise InputError(
            f"an update is put onto the array that GPU {gpu} holds; name it with out=, or leave "
            "out base="
        )


class Kinds:
    """How differences are taken: of each tag, type and codec as blocks of an array were smaller.

    As long as nobody has looked, by subtraction.

    Parameters
    ----------
    over_host
        Whether the updates cross PCIe; else they go from GPU to GPU.
    """

    MOST = 1024

    def __init__(self, *, over_host: bool) -> None:
        self._over_host = over_host
        self._kinds: OrderedDict[tuple[str, str, str], native.UpdateKind] = OrderedDict()
        self._lock = Lock()

    def note(self, transfer: Transfer, codec: str, kind: native.UpdateKind) -> None:
        """Take in what blocks of an update said."""
        if kind is native.UpdateKind.none:
            return
        with self._lock:
            self._kinds[transfer.tag, transfer.dtype, str(codec)] = kind
            if len(self._kinds) > self.MOST:
                self._kinds.popitem(last=False)

    def of(self, transfer: Transfer, codec: str) -> native.UpdateKind:
        """Return how differences are to be taken."""
        with self._lock:
            return self._kinds.get(
                (transfer.tag, transfer.dtype, str(codec)), native.UpdateKind.subtraction
            )

    def choose(
        self, transfer: Transfer, array: LookedAt, base: GpuArray, stream: int
    ) -> tuple[Codec, int]:
        """Return the codec by which differences cross soonest, and its dimensionality."""
        codec, dimensionality, kind = native.choose_update(
            array.gpu,
            array.pointer,
            base.pointer,
            array.bytes,
            dtype_of(array.dtype),
            self._over_host,
            stream,
        )
        self.note(transfer, codec.name, kind)
        return Codec(codec.name), dimensionality
