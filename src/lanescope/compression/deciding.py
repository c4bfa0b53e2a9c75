"""Who decides whether an array travels compressed, and by which codec, and learns from it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Protocol, runtime_checkable

from lanescope._core import native
from lanescope.calls import checked
from lanescope.compression.array_values import GpuArray, LookedAt
from lanescope.compression.stream import Codec
from lanescope.errors import InputError, LanescopeError


@dataclass(frozen=True, slots=True)
class Transfer:
    """An array that is about to cross a link.

    Attributes
    ----------
    tag
        What the user calls arrays of its kind; empty without a name.
    path
        The link and the direction: ``g0>g1``, ``g0>host``, ``host>g0``.
    dtype
        Of the values, as NumPy names it; ``bfloat16`` for that.
    bytes
        Of the array.
    """

    tag: str
    path: str
    dtype: str
    bytes: int


@dataclass(frozen=True, slots=True)
@checked
class Decision:
    """How an array is to travel.

    Attributes
    ----------
    codec
        A name of `Codec`, or ``auto``: the channel looks at the array.
    dimensionality
        Of GFC: from how many values before a value is predicted, 1 to 32.
    raw_seconds, compressed_seconds
        What it would take either way, as predicted; None where nothing is known.
    reason
        One line.
    """

    compress: bool
    codec: str
    dimensionality: int
    raw_seconds: float | None
    compressed_seconds: float | None
    reason: str

    def __post_init__(self) -> None:
        if not 1 <= self.dimensionality <= 32:
            raise InputError(
                f"Decision: dimensionality cannot be {self.dimensionality}; give 1 to 32"
            )

    @property
    def is_trial(self) -> bool:
        """Whether the rule made it to learn from what becomes of the transfer."""
        return self.compress and "a trial" in self.reason  # as the rule says it


def decided(
    compress: bool,
    codec: str,
    dimensionality: int = 1,
    raw_seconds: float | None = None,
    compressed_seconds: float | None = None,
    reason: str = "",
) -> Decision:
    """Return a decision of lanescope's own, whose parts need no check: that takes 10 us."""
    made = object.__new__(Decision)
    put = object.__setattr__  # it is frozen
    put(made, "compress", compress)
    put(made, "codec", codec)
    put(made, "dimensionality", dimensionality)
    put(made, "raw_seconds", raw_seconds)
    put(made, "compressed_seconds", compressed_seconds)
    put(made, "reason", reason)
    return made


@dataclass(frozen=True, slots=True)
class TransferOutcome:
    """What became of a transfer.

    Attributes
    ----------
    seconds
        From its first to its last step on the devices, by their clock; of what it shared with
        another transfer the half.
    raw_bytes, wire_bytes
        Of the array, and what crossed the link.
    compressed
        Whether it was: also what shall be compressed may have to travel as it is.
    """

    seconds: float
    raw_bytes: int
    wire_bytes: int
    compressed: bool


class Decider(Protocol):
    """Decides for each transfer, and is told what became of it; called by several threads."""

    def decide(self, transfer: Transfer) -> Decision:
        """Return how an array is to travel."""
        ...

    def learn(self, transfer: Transfer, decision: Decision, outcome: TransferOutcome) -> None:
        """Take in what became of a transfer; in the order in which transfers end."""
        ...


@dataclass(frozen=True, slots=True)
class Sampled:
    """What some blocks of an array become by a codec.

    Attributes
    ----------
    codec
        A name of `Codec`.
    dimensionality
        Of GFC, with which they become smallest.
    wire_share
        Their bytes on the link over those of the array.
    """

    codec: str
    dimensionality: int
    wire_share: float


@runtime_checkable
class SamplingDecider(Decider, Protocol):
    """A decider for which channels look at some blocks of arrays."""

    def wants_sample(self, transfer: Transfer) -> bool:
        """Return whether to look at an array about which `decide` is called next."""
        ...

    def take_sample(self, transfer: Transfer, sampled: Sequence[Sampled]) -> None:
        """Take in what it becomes: later, as nothing waits for it; empty if it could not be had."""
        ...


@dataclass(frozen=True, slots=True)
@checked
class Always:
    """Decides the same for every transfer."""

    compress: bool

    def decide(self, transfer: Transfer) -> Decision:
        """Return what was asked for."""
        return _ALWAYS[self.compress]

    def learn(self, transfer: Transfer, decision: Decision, outcome: TransferOutcome) -> None:
        """Learn nothing."""


_ALWAYS = {
    compress: Decision(
        compress,
        "auto" if compress else Codec.RAW,
        1,
        None,
        None,
        f"compression is {'on' if compress else 'off'}",
    )
    for compress in (False, True)
}


class WhileBusy:
    """Lets another one decide while a program's rounds wait for a link, else compresses nothing.

    A round is a training step, say. Where its transfers would take much less than all of its time
    as they are, it waits for something else, and compressing would only take its CPU's time, which
    may be what that is, and the GPU's.

    Parameters
    ----------
    decider
        Decides, and learns from all transfers.
    clock
        Returns seconds.
    """

    #: Of the time of a round, what transfers as they are take at most on an idle link, and at
    #: least on a busy one; between them it stays what it was.
    IDLE, BUSY = 0.7, 0.9
    #: Rounds in a row that have to say so.
    ROUNDS = 3

    def __init__(
        self, decider: SamplingDecider, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._decider, self._clock = decider, clock
        self.is_idle = False
        self._others = 0  # rounds in a row that were unlike that
        self._begun: float | None = None
        self._has_decided = False
        self._bytes = self._predicted_bytes = 0
        self._predicted_seconds = 0.0  # of these, as they are
        self._seconds_per_byte: float | None = None

    def begin_round(self) -> None:
        """End the round before, and begin another one; none ends in which nothing was decided."""
        if self._begun is not None and not self._has_decided:
            return
        now = self._clock()
        if self._predicted_bytes > 0:
            self._seconds_per_byte = self._predicted_seconds / self._predicted_bytes
        if self._begun is not None and self._seconds_per_byte is not None:
            share = self._bytes * self._seconds_per_byte / max(now - self._begun, 1e-9)
            other = share > self.BUSY if self.is_idle else share < self.IDLE
            self._others = self._others + 1 if other else 0
            if self._others == self.ROUNDS:
                self.is_idle, self._others = not self.is_idle, 0
        self._begun, self._bytes, self._has_decided = now, 0, False
        self._predicted_bytes, self._predicted_seconds = 0, 0.0

    def count(self, size: int) -> None:
        """Count a transfer that is not decided about, such as one on its way back."""
        self._bytes += size

    def decide(self, transfer: Transfer) -> Decision:
        """Return how an array is to travel: as it is on an idle link."""
        self.count(transfer.bytes)
        self._has_decided = True
        if self.is_idle:
            return _ON_IDLE_LINK
        decision = self._decider.decide(transfer)
        if decision.raw_seconds is not None:
            self._predicted_bytes += transfer.bytes
            self._predicted_seconds += decision.raw_seconds
        return decision

    def learn(self, transfer: Transfer, decision: Decision, outcome: TransferOutcome) -> None:
        """Let the other one learn."""
        self._decider.learn(transfer, decision, outcome)

    def wants_sample(self, transfer: Transfer) -> bool:
        """Return whether to look at an array."""
        return not self.is_idle and self._decider.wants_sample(transfer)

    def take_sample(self, transfer: Transfer, sampled: Sequence[Sampled]) -> None:
        """Let the other one take in what an array becomes."""
        self._decider.take_sample(transfer, sampled)


_ON_IDLE_LINK = decided(
    False, Codec.RAW, reason="the link was idle in the last rounds, which wait for something else"
)


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
