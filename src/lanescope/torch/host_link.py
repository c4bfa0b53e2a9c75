"""Moves tensors to the host's memory and back, next to the work of the stream that uses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from lanescope._core import native
from lanescope.compression.channel import Channel
from lanescope.compression.transfers import Parcel
from lanescope.errors import LanescopeError
from lanescope.torch.saved import NoRoomError

#: cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY.
_NO_MEMORY = 2


@dataclass(frozen=True, slots=True)
class Sent:
    """A tensor in the host's memory.

    Attributes
    ----------
    order
        Of its dimensions in memory, the slowest first.
    """

    parcel: Parcel
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class End:
    """When a transfer has ended, and the stream by which the tensor's memory is ordered."""

    event: Any
    stream: Any


class HostLink:
    """A channel between a GPU and the host, with a stream for each direction."""

    def __init__(self, gpu: int, compression: str) -> None:
        self._gpu = gpu
        self.channel = Channel(gpu, "host", compression=compression)
        self._out, self._back = torch.cuda.Stream(gpu), torch.cuda.Stream(gpu)

    def takes(self, tensor: Any) -> bool:
        """Whether it is a plain tensor of this GPU without gaps, and no part of a parameter."""
        return (
            type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and tensor.is_cuda
            and tensor.device.index == self._gpu
            and tensor.layout is torch.strided
            and not is_parameter(tensor)
            and memory_order(tensor) is not None
        )

    def send(self, tensor: Any) -> tuple[Sent, End]:
        """Begin to send a tensor without gaps to the host; raises NoRoomError."""
        order = memory_order(tensor)
        assert order is not None, "only tensors without gaps are sent"
        own = torch.cuda.current_stream(self._gpu)
        self._out.wait_stream(own)
        with torch.cuda.stream(self._out):
            in_order = tensor.detach().permute(order)
            # what is alike in size and type is mostly alike in content
            tag = f"saved {tuple(in_order.shape)} {in_order.dtype}"
            sent = Sent(self._offload(in_order, tag), order)
        return sent, End(self._out.record_event(), own)

    def _offload(self, tensor: Any, tag: str) -> Parcel:
        try:
            return self.channel.offload(tensor, tag=tag)
        except LanescopeError as error:
            cause = error.__cause__
            if isinstance(cause, native.NativeError) and cause.args[1] == _NO_MEMORY:
                raise NoRoomError from error
            raise

    def bring(self, sent: Sent) -> tuple[Any, End]:
        """Begin to bring one back, into new memory of the current stream."""
        own = torch.cuda.current_stream(self._gpu)
        parcel = sent.parcel
        room = torch.empty(parcel.shape, dtype=parcel.dtype, device=f"cuda:{self._gpu}")
        self._back.wait_stream(own)
        with torch.cuda.stream(self._back):
            self.channel.restore(parcel, out=room)
        places = [sent.order.index(dimension) for dimension in range(len(sent.order))]
        return room.permute(places), End(self._back.record_event(), own)

    def wait(self, end: End) -> None:
        """Let the stream of the tensor's memory wait, and the current one."""
        end.stream.wait_event(end.event)
        current = torch.cuda.current_stream(self._gpu)
        if current != end.stream:
            current.wait_event(end.event)


def is_parameter(tensor: Any) -> bool:
    """Whether a tensor is, or is a view of, one that the program keeps: a leaf with a gradient."""
    whole = tensor if tensor._base is None else tensor._base
    return isinstance(whole, torch.nn.Parameter) or bool(whole.is_leaf and whole.requires_grad)


def memory_order(tensor: Any) -> tuple[int, ...] | None:
    """Return the order of a tensor's dimensions in memory, slowest first; None where it has gaps.

    Elements that several indexes share, as in what ``expand`` returns, count as gaps.
    """
    order = sorted(range(tensor.dim()), key=lambda i: (-tensor.stride(i), i))
    return tuple(order) if tensor.permute(order).is_contiguous() else None
