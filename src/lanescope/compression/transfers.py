"""The transfers of a channel: what was decided about each, and what became of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, BinaryIO, Protocol, Self

from lanescope._core import native
from lanescope.calls import checked
from lanescope.compression.deciding import Always, Decider, Decision, Transfer, TransferOutcome
from lanescope.errors import InputError, LanescopeError
from lanescope.kinds import StrPath

PATIENCE_SECONDS = 30.0
_LONGEST_SECONDS = 86400.0
#: What to do about what came in damaged, by what the core calls it.
_REMEDIES = {"bad block": "send it again", "bad update": "send the whole array, without a base"}


class Ticket(Protocol):
    """What the core tells of a transfer."""

    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def bytes(self) -> int: ...  # noqa: D102
    @property
    def wire_bytes(self) -> int: ...  # noqa: D102
    @property
    def compressed(self) -> bool: ...  # noqa: D102
    @property
    def why_raw(self) -> str: ...  # noqa: D102
    def done(self) -> bool: ...  # noqa: D102
    def damage(self) -> str: ...  # noqa: D102
    def wait(self, patience_s: float) -> None: ...  # noqa: D102


class _CoreErrors:
    """A context without a generator, which takes a microsecond less."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, native.NativeError):
            raise _sentence(error) from error


_CORE_ERRORS = _CoreErrors()


def core_errors() -> _CoreErrors:
    """Turn what the core says into one sentence.

    Raises
    ------
    InputError
        If it refused what the user gave.
    LanescopeError
        If a block came in damaged, or the device failed.
    """
    return _CORE_ERRORS


def _sentence(error: native.NativeError) -> LanescopeError:
    call, code, name, detail, _ = error.args
    if name in _REMEDIES:
        return LanescopeError(f"{detail}; {_REMEDIES[name]}")
    if name == "too late":
        return LanescopeError(f"{detail}; look at what its streams wait for")
    if code == 0:
        return InputError(detail)
    return LanescopeError(f"the GPU's {call} failed: {detail}")


def require_patience(seconds: float) -> None:
    """Refuse to wait longer than a day. Raises `InputError`."""
    if seconds > _LONGEST_SECONDS:
        raise InputError(f"a patience of {seconds:g} s is more than a day; give less")


class Record:
    """One transfer of a channel.

    Attributes
    ----------
    transfer
        What it was.
    decision
        How it was to travel, with the times that were predicted.
    has_base
        Whether it was sent as an update, unless it had to travel as it is.
    ticket
        The native channel's.
    """

    __slots__ = ("_outcome", "_told", "decision", "has_base", "ticket", "transfer")

    def __init__(
        self, transfer: Transfer, decision: Decision, ticket: Ticket, *, has_base: bool = False
    ) -> None:
        self.transfer = transfer
        self.decision = decision
        self.has_base = has_base
        self.ticket = ticket
        self._told = False
        self._outcome: TransferOutcome | None = None

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        with core_errors():
            return self.ticket.done()

    @property
    def why_raw(self) -> str:
        """Why it had to travel as it is although it was to be compressed; empty otherwise."""
        return self.ticket.why_raw

    @property
    def outcome(self) -> TransferOutcome | None:
        """What became of it, or None while it is under way."""
        if self._outcome is None and self.done:
            one = self.ticket
            self._outcome = TransferOutcome(one.seconds, one.bytes, one.wire_bytes, one.compressed)
        return self._outcome

    @property
    def error(self) -> float | None:
        """How far off the prediction was, as a share of the time measured; None without one."""
        outcome = self.outcome
        if outcome is None or outcome.seconds <= 0:
            return None
        decided = self.decision
        predicted = decided.compressed_seconds if decided.compress else decided.raw_seconds
        if predicted is None or outcome.compressed != decided.compress:
            return None
        return predicted / outcome.seconds - 1

    @checked
    def wait(self, patience_seconds: float = PATIENCE_SECONDS) -> TransferOutcome:
        """Return what became of it, when it has ended.

        Raises
        ------
        LanescopeError
            If a block came in damaged, which is named, or it takes longer than that.
        """
        require_patience(patience_seconds)
        try:
            with core_errors():
                self.ticket.wait(patience_seconds)
        finally:  # what comes too late may come in damaged yet
            self._told = self._told or self.damaged
        outcome = self.outcome
        assert outcome is not None
        return outcome

    @property
    def damaged(self) -> bool:
        """Whether it has ended, and a block came in damaged."""
        return bool(self.ticket.damage())

    def untold_damage(self) -> str:
        """Return what came in damaged, once, and unless `wait` told it; empty if nothing did."""
        damage = "" if self._told else self.ticket.damage()
        self._told = True
        return f"{damage}; {_REMEDIES['bad update' if self.has_base else 'bad block']}" * bool(
            damage
        )


class Log:
    """The last transfers of a channel; those that end are told to who decides.

    Attributes
    ----------
    records
        The last ones, oldest first.
    """

    def __init__(self, decider: Decider, length: int) -> None:
        self.records: deque[Record] = deque(maxlen=length)
        self._decider = decider
        self._learns = not isinstance(decider, Always)
        self._under_way: deque[tuple[Record, bool]] = deque()
        self._lock = Lock()

    def add(self, record: Record, *, learns: bool) -> None:
        """Take in a transfer that is on its way; `learns`: whether its decider wants to know."""
        with self._lock:
            self.records.append(record)
            self._under_way.append((record, learns and self._learns))

    def settle(self) -> None:
        """Tell who decides what became of the transfers that have ended.

        Raises
        ------
        LanescopeError
            If something came in damaged of which nobody was told yet.
        """
        damages = []
        with self._lock:
            # They end in order, or nearly so: what waits behind another costs nothing.
            while self._under_way and self._under_way[0][0].done:
                record, learns = self._under_way.popleft()
                if record.damaged:
                    damages.append(record.untold_damage())
                elif learns and (outcome := record.outcome) is not None:
                    self._decider.learn(record.transfer, record.decision, outcome)
        damages = [one for one in damages if one]
        if damages:
            raise LanescopeError(damages[0])

    def under_way(self) -> list[Record]:
        """Return the transfers of which nobody knows yet that they ended."""
        with self._lock:
            return [record for record, _ in self._under_way]


class Logged:
    """What has a log of its transfers, and is closed at the end of a ``with``."""

    _log: Log

    @property
    def log(self) -> tuple[Record, ...]:
        """The last transfers, oldest first: what was predicted, and what became of each."""
        return tuple(self._log.records)

    @property
    def last(self) -> Record | None:
        """The last transfer, or None before the first."""
        return self._log.records[-1] if self._log.records else None

    def close(self) -> None:
        """Wait for what is under way, and give back what it takes."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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
    name
        The tag, unless `named` gave another.
    has_base
        Whether it was offloaded with a base, which it then needs to be restored.
    """

    shape: tuple[int, ...]
    dtype: Any
    framework: str
    tag: str
    decision: Decision
    kind: str
    held: Any = field(repr=False)
    name: str = ""
    has_base: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.tag)

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

    def named(self, name: str) -> Parcel:
        """Return the same parcel by another name."""
        return replace(self, name=name)

    def evict(self) -> None:
        """Give the pinned memory back to the channel: at once, or when what is under way ends.

        It cannot be restored or saved afterwards. `Channel.trim` gives memory back to the system.
        """
        self.held.evict()

    @property
    def evicted(self) -> bool:
        """Whether its memory was given back, so that it cannot be restored."""
        return bool(self.held.evicted)

    def save(self, target: StrPath | BinaryIO) -> int:
        """Write it to a file or a binary stream, as it is stored; waits for the end of the offload.

        `Channel.load` brings it back to pinned memory, and `lanescope.decompress` makes an array of
        the bytes, on a machine without a GPU, too.

        Parameters
        ----------
        target
            A path, where the file appears when it is whole, or an object with `write`.

        Returns
        -------
        int
            Bytes written.

        Raises
        ------
        InputError
            If it was evicted, or the file cannot be written.
        """
        from lanescope.compression.parcels import save_parcel

        return save_parcel(self, target)
