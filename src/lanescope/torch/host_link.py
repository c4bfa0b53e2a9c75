"""Moves tensors to the host's memory and back, next to the work of the stream that uses them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch

from lanescope._core import native
from lanescope.compression.channel import Channel
from lanescope.compression.transfers import Parcel, Record
from lanescope.errors import LanescopeError
from lanescope.torch.regions import is_parameter
from lanescope.torch.saved import NoRoomError

#: cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY.
_NO_MEMORY = 2
#: For each direction: as many transfers as are on their way together.
_STREAMS = 4
#: Of pinned memory, what ranges leave unused at its end, and entries take.
_UNUSED = 1 / 32


@dataclass(frozen=True, slots=True)
class End:
    """When a transfer has ended, and the stream by which the tensor's memory is ordered."""

    event: Any
    stream: Any


class HostLink:
    """A channel between a GPU and the host, each of whose transfers has a stream of its own.

    On one stream a transfer would begin when the one before has been coded or decoded, too, and the
    link would be idle meanwhile; the channel has an order of its own.
    """

    def __init__(self, gpu: int, compression: str) -> None:
        self._gpu = gpu
        self.channel = Channel(gpu, "host", compression=compression)
        self._out = cycle([torch.cuda.Stream(gpu) for _ in range(_STREAMS)])
        self._back = cycle([torch.cuda.Stream(gpu) for _ in range(_STREAMS)])

    @property
    def log(self) -> tuple[Record, ...]:
        """The last transfers of the channel."""
        return self.channel.log

    def takes(self, tensor: Any) -> bool:
        """Whether it is a plain tensor of this GPU, and no part of a parameter."""
        return (
            type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and tensor.is_cuda
            and tensor.device.index == self._gpu
            and tensor.layout is torch.strided
            and not (tensor.is_conj() or tensor.is_neg())
            and not is_parameter(tensor)
        )

    def send(self, tensor: Any) -> tuple[Parcel, End]:
        """Begin to send a tensor in C order to the host; raises NoRoomError."""
        own = torch.cuda.current_stream(self._gpu)
        stream = next(self._out)
        stream.wait_stream(own)
        with torch.cuda.stream(stream):
            # what is alike in size and type is mostly alike in content
            parcel = self._offload(tensor, f"saved {tuple(tensor.shape)} {tensor.dtype}")
        return parcel, End(stream.record_event(), own)

    def _offload(self, tensor: Any, tag: str) -> Parcel:
        try:
            return self.channel.offload(tensor, tag=tag)
        except LanescopeError as error:
            cause = error.__cause__
            if isinstance(cause, native.NativeError) and cause.args[1] == _NO_MEMORY:
                raise NoRoomError from error
            raise

    def bring(self, sent: Parcel) -> tuple[Any, End]:
        """Begin to bring one back, into new memory of the current stream."""
        own = torch.cuda.current_stream(self._gpu)
        room = torch.empty(sent.shape, dtype=sent.dtype, device=f"cuda:{self._gpu}")
        stream = next(self._back)
        stream.wait_stream(own)
        with torch.cuda.stream(stream):
            self.channel.restore(sent, out=room)
        return room, End(stream.record_event(), own)

    def reserve(self, size: int) -> None:
        """Pin so much of the host's memory in all; raises NoRoomError."""
        missing = int(size * (1 + _UNUSED)) - self.channel.pinned_bytes
        if missing <= 0:
            return
        try:
            self.channel.prepare(missing)
        except LanescopeError as error:
            raise NoRoomError from error

    def wait(self, end: End) -> None:
        """Let the stream of the tensor's memory wait, and the current one."""
        end.stream.wait_event(end.event)
        current = torch.cuda.current_stream(self._gpu)
        if current != end.stream:
            current.wait_event(end.event)
