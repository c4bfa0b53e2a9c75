"""The two sides of a tensor that travels behind a header: who sends it, and who receives it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from lanescope.compression.deciding import Decision, Transfer
from lanescope.compression.stream import Codec
from lanescope.compression.transfers import Record
from lanescope.errors import LanescopeError
from lanescope.torch.deciding import Decisions, Stopwatch
from lanescope.torch.pieces import (
    ALIGNMENT,
    Tensor,
    cut,
    decoder_of,
    encoder_of,
    piece_bytes_of,
    require_room,
    room_for,
)
from lanescope.torch.ranks import ByChannel, Header, PlainRuns, TensorKind, pack_note, read_note
from lanescope.torch.routes import CompletedWork, Messages, Notes, TorchWork, bytes_of, name_of

_NONE = 0
_NOT_ALIGNED = "the tensor is not aligned to 16 bytes"


@dataclass(slots=True)  # frozen ones take a microsecond more to make
class Sending:
    """A tensor that this rank sends.

    Attributes
    ----------
    half
        Of a channel to the other rank, by which it goes where it is compressed; None: by messages.
    runs
        Of tensors that go without a header after this one's; None: all have one.
    """

    tensor: Tensor
    messages: Messages
    notes: Notes
    transfer: Transfer
    decisions: Decisions
    half: Any = None
    runs: tuple[PlainRuns, TensorKind] | None = None

    def run(self) -> None:
        """Send it as was decided, and learn from that."""
        by_pieces, device = self.half is None, self.tensor.device
        piece_bytes = piece_bytes_of(self.tensor) if by_pieces else int(self.tensor.nbytes)
        on_gpu = device.type == "cuda"  # where nobody looks at pieces before
        pieces = () if on_gpu else cut(self.tensor, piece_bytes)
        decision = self.decisions.decide(self.transfer, self.tensor, pieces)
        if decision.compress and by_pieces and on_gpu and self.tensor.data_ptr() % ALIGNMENT:
            decision = replace(decision, compress=False, codec=Codec.RAW, reason=_NOT_ALIGNED)
        plain_after = self._announced(decision)
        timed = self.decisions.times(self.transfer, decision, plain_after)
        try:
            opened = self._open(piece_bytes, timed, decision, plain_after)
        except Exception:
            if self.runs is not None:  # nobody was told of one
                self.runs[0].expect(self.runs[1], 0)
            raise
        watch = Stopwatch(device) if timed else None
        if watch is not None:
            opened.wait()
            if on_gpu:  # over gloo this has begun when the header is received
                self.messages.meet(True, device)
            watch.press()
        record = None
        wire_bytes: int | None = None
        if not decision.compress:
            wire_bytes = self._put_raw()
        elif by_pieces:
            wire_bytes = self._put_coded(decision, pieces or cut(self.tensor, piece_bytes))
        else:
            record = self.half.send_as(self.tensor.detach(), self.transfer, decision)
        if watch is not None:
            self.messages.meet(True, device)
            watch.press()
        else:
            opened.wait()
        self._note(decision, watch, wire_bytes, record)

    def _announced(self, decision: Decision) -> int:
        """Return how many tensors like it go without a header after it."""
        if self.runs is None:
            return 0
        runs, kind = self.runs
        return runs.announce(kind, self.transfer, decision)

    def _note(
        self,
        decision: Decision,
        watch: Stopwatch | None,
        wire_bytes: int | None,
        record: Record | None,
    ) -> None:
        if record is None:
            self.decisions.sent(self.transfer, decision, watch, wire_bytes)
        else:
            by_channel = ByChannel(record, watch)
            self.decisions.sent(
                self.transfer, record.decision, by_channel, None, learns=watch is not None
            )

    def run_raw(self) -> None:
        """Send it as it is, behind a header."""
        opened = self._open(0, False, None, 0)
        self._put_raw()
        opened.wait()

    def _open(
        self, piece_bytes: int, timed: bool, decision: Decision | None, plain_after: int
    ) -> TorchWork:
        own = self.tensor
        codec, dimensionality = "", 1
        if decision is None or not decision.compress:
            piece_bytes = 0
        elif self.half is not None:
            if not timed:  # the channel announces the tensor itself
                return CompletedWork()
        elif own.device.type == "cuda":
            codec, dimensionality = str(decision.codec), decision.dimensionality
        shape, size = tuple(own.shape), int(own.nbytes)
        how = (piece_bytes, timed, codec, dimensionality, plain_after)
        return self.notes.open(Header(name_of(own.dtype), shape, size, *how))

    def _put_raw(self) -> int:
        self.messages.put(bytes_of(self.tensor)).wait()
        return self.transfer.bytes

    def _put_coded(self, decision: Decision, pieces: tuple[Tensor, ...]) -> int:
        """Code a piece while the one before is under way; return the bytes of the streams."""
        rooms = [room_for(pieces) for _ in pieces[:2]]
        under_way: deque[tuple[TorchWork, TorchWork]] = deque()
        wire_bytes = 0
        encoder = None
        for number, piece in enumerate(pieces):
            if len(under_way) == len(rooms):
                _wait(under_way.popleft())
            try:
                if encoder is None:
                    codec = Codec(decision.codec)
                    encoder = encoder_of(pieces, codec, decision.dimensionality)
                stream = encoder.encode(number, piece, rooms[number % len(rooms)])
            except Exception:
                self.notes.tell(pack_note(_NONE)).wait()  # and the other side does not wait
                raise
            wire_bytes += stream.numel()
            under_way.append(
                (self.notes.tell(pack_note(stream.numel())), self.messages.put(stream))
            )
        for works in under_way:
            _wait(works)
        return wire_bytes


@dataclass(slots=True)
class Receiving:
    """A tensor that this rank receives.

    Attributes
    ----------
    plain
        Whether values may come without a header.
    half, runs
        As with `Sending`.
    """

    tensor: Tensor
    messages: Messages
    notes: Notes
    plain: bool
    half: Any = None
    runs: tuple[PlainRuns, TensorKind] | None = None

    def run(self) -> None:
        """Receive it; whatever is wrong, all messages are taken first."""
        header = self.notes.accept(self.tensor)
        if header is None and self.half is not None:
            return self._get_by_channel()
        if header is None:
            if self.plain:
                return None
            raise LanescopeError(
                f"what rank {self.messages.peer} sent has no header: it sends by another call, or "
                "a smaller tensor; use the calls of lanescope.torch with like tensors on both sides"
            )
        own = self.tensor
        fits = header.fits(name_of(own.dtype), own.numel())
        if self.runs is not None:
            runs, kind = self.runs
            runs.expect((*kind[:2], header.dtype, prod(header.shape)), header.plain_after)
        if header.timed and own.device.type == "cuda":
            self.messages.meet(False, own.device)
        wrong: Exception | None = None
        if not header.pieces:
            self._get_raw(header, fits)
        elif self.half is not None:
            self._get_by_channel(fits)
        else:
            wrong = self._get_coded(header, fits)
        if header.timed:
            self.messages.meet(False, own.device)
        if not fits:
            raise LanescopeError(
                f"rank {self.messages.peer} sent {header.what}, and the tensor here is "
                f"{name_of(own.dtype)} of shape {tuple(own.shape)}; give both sides like tensors"
            )
        if wrong is not None:
            raise LanescopeError(
                f"what rank {self.messages.peer} sent came in damaged: {wrong}; send it again"
            ) from wrong

    def _get_by_channel(self, fits: bool = True) -> None:
        values = self.tensor.detach()
        if not fits:  # the sender waits for the end of it all the same
            self.half.receive()
        elif values.data_ptr() % ALIGNMENT == 0:
            self.half.receive(values)
        else:  # which kernels that decode cannot write to
            values.copy_(self.half.receive(torch.empty_like(values)))

    def _get_raw(self, header: Header, fits: bool) -> None:
        room = bytes_of(self.tensor) if fits else self._bytes(header.size)
        self.messages.get(room).wait()

    def _get_coded(self, header: Header, fits: bool) -> Exception | None:
        """Decode a piece while the next one is under way; return what was wrong, if anything."""
        own = self.tensor
        aligned = own.device.type != "cuda" or own.data_ptr() % ALIGNMENT == 0
        parts = own if fits and aligned else torch.empty_like(own) if fits else None
        parts = self._bytes(header.size) if parts is None else parts
        pieces = cut(parts, header.piece_bytes)
        rooms = [room_for(pieces) for _ in pieces[:2]]
        wrong: Exception | None = None
        coming = self._next(rooms[0])
        decoder = None
        for number, piece in enumerate(pieces):
            stream, work = coming
            hear = self.notes.listen() if number + 1 < len(pieces) else None
            work.wait()
            if hear is not None:
                coming = self._next(rooms[(number + 1) % len(rooms)], hear())
            if not fits or wrong is not None:
                continue
            try:
                decoder = decoder_of(pieces, header) if decoder is None else decoder
                decoder.decode(number, stream, piece)
                if number + 1 == len(pieces):
                    decoder.require_right()
            except LanescopeError as error:
                wrong = error
        if fits and parts is not own:
            own.detach().copy_(parts)
        return wrong

    def _next(self, room: Tensor, note: bytes | None = None) -> tuple[Tensor, TorchWork]:
        """Begin to receive the next stream."""
        length = read_note(self.notes.listen()() if note is None else note)
        if length == _NONE:
            raise LanescopeError(
                f"rank {self.messages.peer} could not compress its tensor; it says why"
            )
        require_room(length or -1, room)
        stream = room[:length]
        return stream, self.messages.get(stream)

    def _bytes(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self.tensor.device)


def _wait(works: tuple[TorchWork, TorchWork]) -> None:
    for work in works:
        work.wait()
