"""Which codec makes an array in a GPU's memory smallest: asked of some of its blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

from lanescope._core import native
from lanescope.compression.deciding import Sampled, SamplingDecider, Transfer
from lanescope.compression.gpu_arrays import GpuArray, LookedAt
from lanescope.compression.stream import Codec
from lanescope.errors import LanescopeError


def choose(array: LookedAt, stream: int) -> tuple[Codec, int]:
    """Return a codec and its dimensionality, or `Codec.RAW` where none makes it smaller.

    Copies up to eight blocks of 64 KiB to the host, behind what is on `stream`, and waits for
    them: for the first array of a kind, not for each.
    """
    codec, dimensionality = native.choose_codec(
        array.gpu, array.pointer, array.bytes, dtype_of(array.dtype), stream
    )
    return Codec(codec.name), dimensionality


@lru_cache(64)  # of each transfer, some times
def dtype_of(name: str) -> native.Dtype:
    """Return the core's name of a type of values."""
    return native.Dtype["bytes" if name == "uint8" else name]


class Looks:
    """The looks at arrays of a channel, for a decider that wants them. Nothing waits for them."""

    def __init__(
        self,
        decider: object,
        codec: Codec | None,
        note: Callable[[Transfer, str, native.UpdateKind], None] = lambda *_: None,
    ) -> None:
        self._note = note  # of updates, how differences are to be taken
        self._decider = decider if isinstance(decider, SamplingDecider) else None
        self._codec = None if codec in (None, Codec.RAW) else native.Codec[str(codec)]
        self._looker = native.Looker()
        self._of: Transfer | None = None
        self._lock = Lock()

    def before(
        self, transfer: Transfer, array: LookedAt, stream: int, base: GpuArray | None = None
    ) -> None:
        """Tell the decider what was found, and begin the next look, if it wants one.

        With a base it is one at the differences to that.
        """
        if self.wants(transfer):
            self.begin(transfer, array, stream, base)

    def wants(self, transfer: Transfer) -> bool:
        """Tell the decider what was found; return whether it wants another look."""
        if self._decider is None or transfer.bytes == 0:
            return False
        with self._lock:
            self._tell(self._decider)
            return self._looker.is_free and self._decider.wants_sample(transfer)

    def begin(
        self, transfer: Transfer, array: LookedAt, stream: int, base: GpuArray | None = None
    ) -> None:
        """Begin the look that the decider wants."""
        assert self._decider is not None
        with self._lock:
            if not self._looker.is_free:  # another thread was first
                return
            self._of = transfer
            try:
                self._looker.begin(
                    array.gpu, array.pointer, array.bytes, dtype_of(array.dtype), self._codec,
                    stream, *(() if base is None else (base.pointer,)),
                )  # fmt: skip
            # It goes on without: the transfer says what is wrong, or needs no memory for its part.
            except (native.NativeError, LanescopeError):
                self._decider.take_sample(transfer, ())

    def _tell(self, decider: SamplingDecider) -> None:
        if self._of is None or (sizes := self._looker.take()) is None:
            return
        for codec, _, _, kind in sizes:
            self._note(self._of, codec.name, kind)
        sampled = [Sampled(codec.name, values, share) for codec, values, share, _ in sizes]
        decider.take_sample(self._of, sampled)


@dataclass(slots=True)
class _Chosen:
    codec: Codec
    dimensionality: int
    uses: int = 0


class Choices:
    """The codec of each kind of arrays, of so many kinds, those used last."""

    MOST = 1024
    #: An array is looked at again after as many that no codec made smaller.
    RAW_USES = 16

    def __init__(self) -> None:
        self._chosen: OrderedDict[tuple[str, str], _Chosen] = OrderedDict()
        self._lock = Lock()

    def of(
        self, transfer: Transfer, choose_one: Callable[[], tuple[Codec, int]]
    ) -> tuple[Codec, int]:
        """Return codec and dimensionality; `choose_one` finds them where they are not known."""
        kind = (transfer.tag, transfer.dtype)
        with self._lock:
            known = self._chosen.pop(kind, None)
            if known is not None:
                known.uses += 1
            if known is None or (known.codec is Codec.RAW and known.uses >= self.RAW_USES):
                known = _Chosen(*choose_one())
            self._chosen[kind] = known
            if len(self._chosen) > self.MOST:
                self._chosen.popitem(last=False)
            return known.codec, known.dimensionality
