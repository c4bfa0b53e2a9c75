"""One side of sending a tensor: which way it goes, and its messages in order."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from lanescope.calls import shown
from lanescope.compression.deciding import Decision, Transfer
from lanescope.compression.gpu_arrays import coded_dtype
from lanescope.compression.stream import Codec
from lanescope.errors import InputError, LanescopeError
from lanescope.torch.deciding import Decisions, Watch, decisions
from lanescope.torch.headers import Header, looks_like_header, pack_note, read_note
from lanescope.torch.links import Ended, known_links, link
from lanescope.torch.parts import ALIGNMENT
from lanescope.torch.pieces import (
    Tensor,
    cut,
    decoder_of,
    encoder_of,
    piece_bytes_of,
    require_room,
    room_for,
)
from lanescope.torch.routes import (
    Messages,
    Notes,
    ToAll,
    ToPeer,
    Work,
    backend_of,
    bytes_of,
    first_bytes,
    notes_of,
    store_of,
    timeout_of,
)

#: By kind of device: what has to carry tensors there, and from how many bytes on there is a header.
CARRIERS = {"cpu": "gloo", "cuda": "nccl"}
LEAST_BYTES = {"cpu": 1 << 20, "cuda": 16 << 20}
_NONE = 0
_NOT_ALIGNED = "the tensor is not aligned to 16 bytes"


class Exchange:
    """Sends and receives over a process group."""

    def __init__(self, group: Any) -> None:
        self._group = group

    @property
    def group(self) -> Any:
        """The process group."""
        return self._group

    @property
    def rank(self) -> int:
        """This process's, by the default group's numbers."""
        return int(dist.get_rank())

    def require_on_cpu(self, tensor: Tensor) -> None:
        """Refuse a tensor on a GPU: its messages are in the order of the calls of one thread."""
        self._kind(tensor)
        if tensor.device.type != "cpu":
            raise InputError(
                "only tensors on a CPU are sent and received behind the program; use "
                "torch.distributed.isend and irecv on both sides"
            )

    def send(self, tensor: Tensor, dst: int, tag: int, compression: str, codec: str) -> None:
        """Send to a rank."""
        with self.errors(f"sending to rank {dst}"):
            self._send(tensor, dst, tag, compression, codec)

    def receive(self, tensor: Tensor, src: int | None, tag: int) -> int:
        """Receive from a rank, which is returned."""
        with self.errors(f"receiving from {'any rank' if src is None else f'rank {src}'}"):
            return self._receive(tensor, src, tag)

    def _send(self, tensor: Tensor, dst: int, tag: int, compression: str, codec: str) -> None:
        own = dist.get_rank()
        self._require_rank(dst)
        kind = self._carrying(tensor)
        if kind is None or dst == own:
            decisions("cpu", compression, codec)  # which refuses what there is not
            dist.send(tensor, dst, self._group, tag)
            return
        to, ends = ToPeer(self._group, dst, tag), (own, dst)
        transfer = self._transfer(tensor, ends, tag)
        decides = decisions(kind, compression, codec)
        if tensor.nbytes >= LEAST_BYTES[kind]:
            if not self._send_by_link(tensor, ends, transfer, decides):
                self._sending(tensor, to, ends, transfer, decides).run()
        elif kind == "cpu" and looks_like_header(first_bytes(tensor)):
            # or the other side would take it for one
            self._sending(tensor, to, ends, transfer, decides).run_raw()
        else:
            dist.send(tensor, dst, self._group, tag)

    def _receive(self, tensor: Tensor, src: int | None, tag: int) -> int:
        if src is not None:
            self._require_rank(src)
        kind = self._kind(tensor)
        small = kind is None or tensor.nbytes < LEAST_BYTES[kind]
        if not self._is_plain(tensor, kind) or (small and kind != "cpu"):
            return int(dist.recv(tensor, src, self._group, tag))
        if src is None and kind == "cuda":
            raise InputError("NCCL does not receive from any rank; give src")
        if src is not None and not small and self._receive_by_link(tensor, (src, dist.get_rank())):
            return src
        messages = ToPeer(self._group, src, tag)
        ends = (_NONE if src is None else src, dist.get_rank())
        notes = notes_of(messages, self._group, tensor.device.type, ends)
        Receiving(tensor, messages, notes, plain=small).run()
        assert messages.peer is not None
        return messages.peer

    def broadcast(self, tensor: Tensor, src: int, compression: str, codec: str) -> None:
        """Send from a rank to all."""
        self._require_rank(src)
        kind = self._carrying(tensor)
        alone = dist.get_world_size(self._group) < 2
        decisions("cpu", compression, codec)
        if kind is None or alone or tensor.nbytes < LEAST_BYTES[kind]:
            dist.broadcast(tensor, src, self._group)
            return
        own, messages, ends = dist.get_rank(), ToAll(self._group, src), (src, "all")
        # To more than one, copies of all would leave by the source's links, where NCCL has a ring.
        others = [rank for rank in dist.get_process_group_ranks(self._group) if rank != src]
        between = (src, others[0]) if len(others) == 1 else None
        if own == src:
            transfer = self._transfer(tensor, ends, 0)
            decides = decisions(tensor.device.type, compression, codec)
            if between is None or not self._send_by_link(tensor, between, transfer, decides):
                self._sending(tensor, messages, ends, transfer, decides).run()
        elif between is None or not self._receive_by_link(tensor, between):
            notes = notes_of(messages, self._group, tensor.device.type, ends)
            Receiving(tensor, messages, notes, plain=False).run()

    def _transfer(self, tensor: Tensor, ends: tuple[int, int | str], tag: int) -> Transfer:
        to = ends[1] if isinstance(ends[1], str) else f"r{ends[1]}"
        path = f"{self._group.group_name}: r{ends[0]}>{to}"
        return Transfer(str(tag) if tag else "", path, coded_dtype(tensor.dtype), tensor.nbytes)

    def _sending(
        self,
        tensor: Tensor,
        messages: Messages,
        ends: tuple[int, int | str],
        transfer: Transfer,
        decides: Decisions,
    ) -> Sending:
        notes = notes_of(messages, self._group, tensor.device.type, ends)
        return Sending(tensor, messages, notes, transfer, decides)

    def _send_by_link(
        self, tensor: Tensor, ends: tuple[int, int], transfer: Transfer, decides: Decisions
    ) -> bool:
        """Send by a channel to another process of the node; return whether there is one."""
        half = self._link(tensor, ends, sends=True)
        if half is None:
            return False
        decision = decides.decide(transfer, tensor, ())
        record = half.send_as(tensor.detach(), transfer, decision)
        decides.sent(transfer, record.decision, Ended(record), None)
        return True

    def _receive_by_link(self, tensor: Tensor, ends: tuple[int, int]) -> bool:
        """Receive what that sends, likewise."""
        half = self._link(tensor, ends, sends=False)
        if half is None:
            return False
        values = tensor.detach()
        if values.data_ptr() % ALIGNMENT == 0:
            half.receive(values)
        else:  # which kernels that decode cannot write to
            values.copy_(half.receive(torch.empty_like(values)))
        return True

    def _link(self, tensor: Tensor, ends: tuple[int, int], *, sends: bool) -> Any:
        """Return this rank's half of a channel between two GPUs of a node; None: by messages."""
        if tensor.device.type != "cuda":
            return None
        gpu = tensor.device.index
        known = known_links(self._group)
        if (*ends, gpu) in known:
            return known[(*ends, gpu)]
        return link(self._group, store_of(self._group), ends, sends, gpu, timeout_of(self._group))

    def _require_rank(self, rank: int) -> None:
        """Refuse a rank that the group has not, which PyTorch may not survive."""
        ranks = dist.get_process_group_ranks(self._group)
        if dist.get_rank() in ranks and rank not in ranks:
            raise InputError(f"the group has no rank {rank}; give one of {shown(ranks)}")

    def _kind(self, tensor: Tensor) -> str | None:
        """Return ``cpu`` or ``cuda``, if that can carry a header, too."""
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"a tensor of PyTorch is sent, not {shown(tensor)}")
        kind = str(tensor.device.type)
        if backend_of(self._group, kind) != CARRIERS.get(kind, ""):
            return None
        if tensor.layout is torch.strided and not tensor.is_contiguous():
            raise InputError("the tensor has gaps or is not in C order; call .contiguous()")
        return kind

    def _carrying(self, tensor: Tensor) -> str | None:
        """Return ``cpu`` or ``cuda`` of a tensor that goes another way than by PyTorch's call."""
        kind = self._kind(tensor)
        return kind if self._is_plain(tensor, kind) else None

    def _is_plain(self, tensor: Tensor, kind: str | None) -> bool:
        """Whether its memory holds what it means, of a kind that is carried, in a rank of it."""
        return (
            kind is not None
            and type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and tensor.layout is torch.strided
            and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
            and dist.get_rank(self._group) >= 0
        )

    def errors(self, what: str) -> _Errors:
        """Turn what PyTorch raises into one sentence.

        Raises
        ------
        InputError
            If it refused what the user gave.
        LanescopeError
            If a process ended, or did not come in time.
        """
        return _Errors(self._group, what)


class _Errors:
    __slots__ = ("_group", "_what")

    def __init__(self, group: Any, what: str) -> None:
        self._group, self._what = group, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, ValueError | TypeError):
            raise InputError(f"{self._what} is not possible: {_one_line(error)}") from error
        if isinstance(error, RuntimeError):
            patience = timeout_of(self._group).total_seconds()
            raise LanescopeError(
                f"{self._what} broke off: {_one_line(error)}; the other process ended, or did not "
                f"make the matching call within the group's timeout of {patience:g} s"
            ) from error


@dataclass(frozen=True, slots=True)
class Sending:
    """A tensor that this rank sends."""

    tensor: Tensor
    messages: Messages
    notes: Notes
    transfer: Transfer
    decisions: Decisions

    def run(self) -> None:
        """Send it as was decided, and learn from that."""
        piece_bytes = piece_bytes_of(self.tensor)
        on_gpu = self.tensor.device.type == "cuda"  # where nobody looks at pieces before
        pieces = () if on_gpu else cut(self.tensor, piece_bytes)
        decision = self.decisions.decide(self.transfer, self.tensor, pieces)
        device, timed = self.tensor.device, self.decisions.times(self.transfer, decision)
        if decision.compress and on_gpu and self.tensor.data_ptr() % ALIGNMENT:
            decision = replace(decision, compress=False, codec=Codec.RAW, reason=_NOT_ALIGNED)
        opened = self._open(piece_bytes, timed, decision)
        watch = Watch(device) if timed else None
        if watch is not None:
            opened.wait()
            if device.type == "cuda":  # over gloo this has begun when the header is received
                self.messages.meet(True, device)
            watch.press()
        if decision.compress:
            wire_bytes = self._put_coded(decision, pieces or cut(self.tensor, piece_bytes))
        else:
            wire_bytes = self._put_raw()
        if watch is not None:
            self.messages.meet(True, device)
            watch.press()
        else:
            opened.wait()
        self.decisions.sent(self.transfer, decision, watch, wire_bytes)

    def run_raw(self) -> None:
        """Send it as it is, behind a header."""
        opened = self._open(0, False, None)
        self._put_raw()
        opened.wait()

    def _open(self, piece_bytes: int, timed: bool, decision: Decision | None) -> Work:
        own = self.tensor
        how: tuple[Any, ...] = (0, timed)
        if decision is not None and decision.compress:
            how = (piece_bytes, timed)
            if own.device.type == "cuda":
                how = (piece_bytes, timed, str(decision.codec), decision.dimensionality)
        return self.notes.open(Header(_name(own.dtype), tuple(own.shape), own.nbytes, *how))

    def _put_raw(self) -> int:
        self.messages.put(bytes_of(self.tensor)).wait()
        return self.transfer.bytes

    def _put_coded(self, decision: Decision, pieces: tuple[Tensor, ...]) -> int:
        """Code a piece while the one before is under way; return the bytes of the streams."""
        rooms = [room_for(pieces) for _ in pieces[:2]]
        under_way: deque[tuple[Work, Work]] = deque()
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


@dataclass(frozen=True, slots=True)
class Receiving:
    """A tensor that this rank receives.

    Attributes
    ----------
    plain
        Whether values may come without a header.
    """

    tensor: Tensor
    messages: Messages
    notes: Notes
    plain: bool

    def run(self) -> None:
        """Receive it; whatever is wrong, all messages are taken first."""
        header = self.notes.accept(self.tensor)
        if header is None:
            if self.plain:
                return
            raise LanescopeError(
                f"what rank {self.messages.peer} sent has no header: it sends by another call, or "
                "a smaller tensor; use the calls of lanescope.torch with like tensors on both sides"
            )
        own = self.tensor
        fits = header.fits(_name(own.dtype), own.numel())
        if header.timed and own.device.type == "cuda":
            self.messages.meet(False, own.device)
        wrong = self._get_coded(header, fits) if header.pieces else self._get_raw(header, fits)
        if header.timed:
            self.messages.meet(False, own.device)
        if not fits:
            raise LanescopeError(
                f"rank {self.messages.peer} sent {header.what}, and the tensor here is "
                f"{_name(own.dtype)} of shape {tuple(own.shape)}; give both sides like tensors"
            )
        if wrong is not None:
            raise LanescopeError(
                f"what rank {self.messages.peer} sent came in damaged: {wrong}; send it again"
            ) from wrong

    def _get_raw(self, header: Header, fits: bool) -> Exception | None:
        room = bytes_of(self.tensor) if fits else self._bytes(header.size)
        self.messages.get(room).wait()
        return None

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

    def _next(self, room: Tensor, note: bytes | None = None) -> tuple[Tensor, Work]:
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


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _wait(works: tuple[Work, Work]) -> None:
    for work in works:
        work.wait()


def _one_line(error: Exception) -> str:
    """Return what PyTorch says first, without the place in its source."""
    text = str(error).strip() or type(error).__name__
    said = re.sub(r"^\[\S*:\d+\] ", "", text.splitlines()[0])
    return said.partition(". ")[0][:300].rstrip(".;,: ")
