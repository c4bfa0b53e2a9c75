"""What channels of all kinds begin with: GPUs, a decider, an array's codec and base, slabs, SMs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import Any

from lanescope._core import native
from lanescope.calls import shown
from lanescope.compression.array_values import GpuArray, LookedAt, gpu_array
from lanescope.compression.deciding import Always, Decider, Decision, Transfer, decided, dtype_of
from lanescope.compression.rule import CODECS_BY_DTYPE, CodecCost, LinkModel, Rule, takes
from lanescope.compression.stream import Codec
from lanescope.engine.core import reason_for
from lanescope.errors import InputError, MissingPartError

AUTO = "auto"
_MIB = 1 << 20
#: Blocks of 64 KiB that 80 SMs code at a time: so much lies between what is read and what is
#: decoded.
_AT_ONCE_BYTES = 20 * _MIB
#: What stands before the path of an update: who decides learns of it apart from whole arrays.
_PREFIX = "update "


@lru_cache(64)  # for each transfer
def codec_of_transfers(name: str) -> Codec | None:
    """Return the codec of a name, or None of ``auto``.

    Raises
    ------
    InputError
        If there is none, or it is one of streams alone.
    """
    if name == AUTO:
        return None
    names = ", ".join([AUTO, *(one for one in Codec if not one.by_nvcomp)])
    try:
        codec = Codec(name)
    except ValueError:
        raise InputError(f"there is no codec {shown(name)}; give one of {names}") from None
    if codec.by_nvcomp:
        raise InputError(
            f"codec {codec} is one of streams, for compress, and not of transfers; give one of "
            f"{names}"
        )
    return codec


def require_gpus(*gpus: int) -> None:
    """Refuse GPUs that are not there; raises `MissingPartError`."""
    try:
        count = len(native.cuda_devices())
    except native.NativeError as error:
        raise MissingPartError(f"a channel needs a GPU: {reason_for(*error.args).error}") from error
    for gpu in gpus:
        if not 0 <= gpu < count:
            raise MissingPartError(f"there is no GPU {gpu}; CUDA shows {count}, counted from 0")


def decider_of(
    compression: str | Decider, codec: Codec | None, cost: CodecCost, links: LinkModel | None = None
) -> Decider:
    """Return what decides: the rule of ``auto``, the same each time of ``on`` and ``off``.

    Raises
    ------
    InputError
        If it is another word.
    """
    if not isinstance(compression, str):
        return compression
    if compression == AUTO:
        return Rule(links, cost=cost, codec=codec)
    if compression not in ("on", "off"):
        raise InputError(f"compression cannot be {compression!r}; give auto, on or off")
    return Always(compression == "on")


def with_codec(
    decision: Decision,
    transfer: Transfer,
    codec: Codec | None,
    find: Callable[[], tuple[Codec, int]],
) -> Decision:
    """Return a decision with the codec that is to be used, `Codec.RAW` if it goes as it is.

    Parameters
    ----------
    codec
        The only one that may be used, if any.
    find
        Finds a codec and its dimensionality, where the decider leaves that open.
    """
    if not decision.compress or transfer.bytes == 0:
        as_it_is = not decision.compress and decision.codec is Codec.RAW
        return decision if as_it_is else with_parts(decision, False, Codec.RAW)
    dimensionality = decision.dimensionality
    if codec is None:
        codec = codec_of_transfers(decision.codec)
    if codec is None:
        codec, dimensionality = find()
    if codec is Codec.RAW:
        reason = f"{decision.reason}, but no codec makes it smaller"
        return with_parts(decision, False, codec, reason=reason)
    if not takes(codec, transfer.dtype):
        reason = f"{codec} takes no {transfer.dtype}"
        return with_parts(decision, False, Codec.RAW, reason=reason)
    if decision.codec is codec and decision.dimensionality == dimensionality:
        return decision
    return with_parts(decision, True, codec, dimensionality)


def with_parts(
    decision: Decision,
    compress: bool,
    codec: Codec,
    dimensionality: int | None = None,
    reason: str | None = None,
) -> Decision:
    """Return a decision with some parts in place of its own."""
    return decided(
        compress,
        codec,
        decision.dimensionality if dimensionality is None else dimensionality,
        decision.raw_seconds,
        decision.compressed_seconds,
        decision.reason if reason is None else reason,
    )


class KernelLoader:
    """Loads kernels that may be needed, so that no transfer that is timed waits for it.

    Parameters
    ----------
    core
        A channel of the core.
    codec
        The only one that is used, if any.
    """

    def __init__(self, core: Any, codec: Codec | None) -> None:
        self._core, self._codec = core, codec
        self._loaded: set[str] = set()
        self._lock = Lock()

    def load(self, dtype: str) -> None:
        """Load those for values of a type, at the first call."""
        if dtype in self._loaded:
            return
        with self._lock:
            if dtype in self._loaded:
                return
            self._loaded.add(dtype)
        given = () if self._codec in (None, Codec.RAW) else (str(self._codec),)
        for codec in given or CODECS_BY_DTYPE.get(dtype, ()):
            if takes(codec, dtype):
                with suppress(native.NativeError):  # which is said where they are needed
                    self._core.load(native.Codec[codec], dtype_of(dtype))


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


class UpdateKinds:
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
