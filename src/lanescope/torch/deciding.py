"""Whether a tensor travels to other ranks compressed, and what is learned from that."""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import Any, Protocol

import torch

from lanescope._core import native
from lanescope.compression.array_values import current_stream, gpu_array
from lanescope.compression.channel_setup import (
    AUTO,
    codec_of_transfers,
    decider_of,
    with_codec,
)
from lanescope.compression.deciding import (
    Choices,
    Decision,
    Looks,
    Sampled,
    Transfer,
    TransferOutcome,
    choose,
    dtype_of,
)
from lanescope.compression.rule import AT_BEST, CodecCost, Rule
from lanescope.compression.stream import Codec, describe
from lanescope.torch.pieces import StreamEncoder, Tensor, numpy_of, room_for
from lanescope.torch.ranks import PlainRun

_LOGGED = 1000
_UNTIMED = 8
_MOST_THREADS = 16
#: What one core may reach at best; that codecs are slower is learned.
_CORE_COMPRESS_GBS, _CORE_DECOMPRESS_GBS, _START_SECONDS = 4.0, 8.0, 50e-6


@dataclass(frozen=True, slots=True)
class Sent:
    """A tensor that this rank has sent behind a header, or as one before had announced.

    Attributes
    ----------
    transfer
        What it was, and whereto.
    decision
        How it travelled, with the times that were predicted.
    wire_bytes
        What crossed the link, without headers; None where nobody has waited for it.
    outcome
        How long it took; None where nobody learns from it, or its end is not known yet.
    """

    transfer: Transfer
    decision: Decision
    wire_bytes: int | None
    outcome: TransferOutcome | None = None


class Times(Protocol):
    """Tells how long a transfer took."""

    @property
    def seconds(self) -> float | None:
        """None where it has not ended."""

    @property
    def wire_bytes(self) -> int | None:
        """What crossed the link, where that is not known before."""


class Stopwatch:
    """Seconds between two calls, of a CPU; or on a GPU's current stream, when that is past both."""

    wire_bytes = None

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._ends: list[Any] = []

    def press(self) -> None:
        """Begin, or end."""
        if self._device.type == "cpu":
            self._ends.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        self._ends.append(event)

    @property
    def seconds(self) -> float | None:
        """How long it was; None where it has not ended."""
        begin, end = self._ends
        if self._device.type == "cpu":
            return float(end - begin)
        return float(begin.elapsed_time(end)) / 1e3 if end.query() else None


class Decisions:
    """Decides about tensors on CPUs or on GPUs, on all paths.

    Parameters
    ----------
    kind
        ``cpu`` or ``cuda``.
    compression
        ``auto``, ``on`` or ``off``.
    codec
        A name of `Codec`, or ``auto``.
    """

    def __init__(self, kind: str, compression: str, codec: str) -> None:
        self._codec = codec_of_transfers(codec)
        self._decider = decider_of(compression, self._codec, _cost(kind))
        self._learns = compression == AUTO
        self._untimed: dict[tuple[str, str, bool], int] = {}
        self._on_gpu = kind == "cuda"
        looks = self._on_gpu and self._learns
        self._looks = Looks(self._decider, self._codec) if looks else None
        self._choices = Choices()
        self._settled: dict[Transfer, Decision] = {}
        self._under_way: deque[tuple[Noted, Times, bool]] = deque()
        self._lock = Lock()

    def decide(self, transfer: Transfer, tensor: Tensor, pieces: tuple[Tensor, ...]) -> Decision:
        """Return the decision with the codec that is to be used."""
        if self._learns:
            self.settle()
        if self._looks is not None:
            if self._looks.wants(transfer):
                array = gpu_array(tensor, tensor.device.index, "the tensor to send")
                self._looks.begin(transfer, array, current_stream("torch", tensor.device.index))
        elif isinstance(self._decider, Rule) and self._decider.wants_sample(transfer):
            self._decider.take_sample(transfer, _sampled(tensor, pieces, self._codec))
        decision = self._settled.get(transfer)
        if decision is not None:
            return decision
        decision = with_codec(
            self._decider.decide(transfer),
            transfer,
            self._codec,
            lambda: self._choices.of(transfer, lambda: _chosen(tensor, pieces)),
        )
        if decision.compress and not self._learns and len(self._settled) < Choices.MOST:
            self._settled[transfer] = decision  # nothing changes that any more
        return decision

    @property
    def learns(self) -> bool:
        """Whether it wants to know what became of transfers."""
        return self._learns

    def times(self, transfer: Transfer, decision: Decision, plain_after: int = 0) -> bool:
        """Return whether to learn how long it takes, which costs a message back and forth.

        Where times are known, that is so for one in eight of those that go as they are, and on GPUs
        of those that go compressed, too; and for each one before a run of tensors without a header.
        """
        if not self._learns or decision.raw_seconds is None or plain_after > 0:
            return self._learns
        if decision.compress and (not self._on_gpu or decision.is_trial):
            return True
        path = (transfer.path, transfer.dtype, decision.compress)
        with self._lock:
            self._untimed[path] = (self._untimed.get(path, 0) + 1) % _UNTIMED
            return self._untimed[path] == 0

    def sent(
        self,
        transfer: Transfer,
        decision: Decision,
        times: Times | None,
        wire_bytes: int | None,
        *,
        learns: bool = True,
    ) -> None:
        """Take in a tensor that has been sent, or, on a GPU, is on its way.

        Without times nothing is learned from it; with them, where it `learns`.
        """
        noted = Noted(Sent(transfer, decision, wire_bytes))
        LOG.append(noted)
        if times is None:
            return
        with self._lock:
            self._under_way.append((noted, times, learns))
            self._settle()

    def settle(self) -> None:
        """Learn from those that have ended."""
        if not self._under_way:
            return
        with self._lock:
            self._settle()

    def _settle(self) -> None:
        while self._under_way and (seconds := self._under_way[0][1].seconds) is not None:
            noted, times, learns = self._under_way.popleft()
            if seconds <= 0:  # it was lost, or damaged, and took no time that tells anything
                continue
            transfer, decision = noted.sent.transfer, noted.sent.decision
            wire_bytes = noted.sent.wire_bytes
            if wire_bytes is None:
                wire_bytes = times.wire_bytes
            outcome = TransferOutcome(seconds, transfer.bytes, wire_bytes or 0, decision.compress)
            noted.sent = Sent(transfer, decision, wire_bytes, outcome)
            if learns:
                self._decider.learn(transfer, decision, outcome)


@dataclass(slots=True)
class Noted:
    """A tensor in the log, of which more may be known later."""

    sent: Sent


def log_in_run(run: PlainRun, tag: int) -> None:
    """Put a tensor in the log that has just been sent without a header."""
    noted = run.logged.get(tag)
    if noted is None:
        assert run.decided is not None, "the sender knows it"
        transfer, decision = run.decided
        if transfer.tag != tag_name(tag):
            transfer = replace(transfer, tag=tag_name(tag))
        # of all with the tag: nothing more will be known of them
        noted = run.logged[tag] = Noted(Sent(transfer, decision, transfer.bytes))
    LOG.append(noted)


def tag_name(tag: int) -> str:
    """Return by which name the rule learns about tensors of a tag."""
    return str(tag) if tag else ""


#: Of the whole process, oldest first.
LOG: deque[Noted] = deque(maxlen=_LOGGED)
_deciders: list[Decisions] = []


@cache
def decisions(kind: str, compression: str, codec: str) -> Decisions:
    """Return who decides: one for all groups and peers, which are paths to it."""
    _deciders.append(Decisions(kind, compression, codec))
    return _deciders[-1]


def logged() -> tuple[Sent, ...]:
    """Return the tensors that this process sent last, with what is known of them by now."""
    for one in tuple(_deciders):
        one.settle()
    return tuple(noted.sent for noted in tuple(LOG))


def _cost(kind: str) -> CodecCost:
    if kind == "cuda":
        return replace(AT_BEST, slab_bytes=16 << 20)
    cores = min(len(os.sched_getaffinity(0)), _MOST_THREADS)
    return CodecCost(
        _CORE_COMPRESS_GBS * cores, _CORE_DECOMPRESS_GBS * cores, _START_SECONDS, 1 << 20
    )


def _sampled(tensor: Tensor, pieces: tuple[Tensor, ...], codec: Codec | None) -> list[Sampled]:
    """Return what some blocks of a tensor become by a codec, or by those that suit its type."""
    values = tensor.detach().reshape(-1)
    if values.is_complex():
        values = torch.view_as_real(values).reshape(-1)
    dtype = dtype_of(str(pieces[0].dtype).removeprefix("torch."))
    named = None if codec in (None, Codec.RAW) else native.Codec[str(codec)]
    sizes = native.sample_sizes(numpy_of(values.view(pieces[0].dtype)), named, dtype)
    return [Sampled(one.name, dimensionality, share) for one, dimensionality, share in sizes]


def _chosen(tensor: Tensor, pieces: tuple[Tensor, ...]) -> tuple[Codec, int]:
    """Return what makes a tensor smallest: some blocks of it, or of its first piece on a CPU."""
    if tensor.device.type == "cuda":
        gpu = tensor.device.index
        array = gpu_array(tensor, gpu, "the tensor to send")
        return choose(array, current_stream("torch", gpu))
    room = room_for(pieces)
    info = describe(StreamEncoder(None, 1).encode(0, pieces[0], room).numpy())
    return info.codec, info.dimensionality
