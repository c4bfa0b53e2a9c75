"""Moves the memory that saved tensors lie in to the host and back, next to their stream's work.

It travels once, however many tensors are in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch

from lanescope._core import native
from lanescope.compression.array_values import current_stream
from lanescope.compression.channel import Channel
from lanescope.compression.channel_setup import AUTO, TO_HOST
from lanescope.compression.deciding import WhileBusy
from lanescope.compression.rule import AT_BEST, Rule, links_of_this_machine
from lanescope.compression.transfers import Parcel, Record
from lanescope.errors import LanescopeError
from lanescope.torch.activations import NoRoomError, key_of

#: A tensor with gaps travels with all of its storage, unless that is more than so many times it.
_MOST_TIMES = 4
#: cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY.
_NO_MEMORY = 2
#: Of pinned memory, what ranges leave unused at its end, and entries take.
_UNUSED = 1 / 32


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """How a tensor lies in memory that travels, in its elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def of(self, values: Any) -> Any:
        """Return the tensor in such memory, wherever that lies now."""
        begin = values.storage_offset()
        return values.as_strided(self.shape, self.stride, begin + self.offset)


@dataclass(frozen=True, slots=True)
class Region:
    """Memory that travels.

    Attributes
    ----------
    values
        A tensor of it without gaps, in the order of memory.
    versioned
        One that counts changes in place of the same memory, and holds no graph.
    view
        How the tensor that was asked about lies in it.
    """

    values: Any
    versioned: Any
    view: TensorLayout

    @property
    def bytes(self) -> int:
        """Of the memory."""
        return int(self.values.numel() * self.values.element_size())


def region_of(tensor: Any, is_known: Callable[[Any], bool] = lambda _: False) -> Region | None:
    """Return what has to travel for a tensor; None where that is much more than the tensor.

    That is the tensor itself, where it has no gaps, or else all of its storage: query, key and
    value of attention are mostly views of one result, which travels once for all of them.

    Parameters
    ----------
    is_known
        Whether memory, by its `lanescope.torch.activations.key_of`, is saved already.
    """
    shape, stride = tensor.shape, tensor.stride()
    if tensor.is_contiguous():
        values = tensor.detach()
        return Region(values, values, TensorLayout(shape, stride, 0))
    order = memory_order(tensor)
    if order is not None:
        values = tensor.detach().permute(order)
        return Region(values, values, TensorLayout(shape, stride, 0))
    storage = tensor.untyped_storage()
    size, element = storage.nbytes(), tensor.element_size()
    if size % element:
        return None
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    whole.set_(storage, 0, (size // element,), (1,))
    used = tensor.numel() * element
    if used * _MOST_TIMES < size and not is_known(key_of(whole, size)):
        return None
    return Region(whole, tensor.detach(), TensorLayout(shape, stride, tensor.storage_offset()))


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


@dataclass(frozen=True, slots=True)
class End:
    """A transfer under way, and the stream by which the tensor's memory is ordered."""

    record: Record
    stream: Any


@lru_cache(1024)
def _tag(shape: tuple[int, ...], dtype: Any) -> str:
    """Return a name for tensors that are mostly alike in content: those alike in size and type."""
    return f"saved {tuple(shape)} {dtype}"


class HostLink:
    """A channel between a GPU and the host, next to whose transfers the current stream goes on."""

    def __init__(self, gpu: int, compression: str) -> None:
        self._gpu = gpu
        self._busy = None
        if compression == AUTO:
            cost = replace(AT_BEST, slab_bytes=TO_HOST.fill_bytes)
            self._busy = WhileBusy(Rule(links_of_this_machine(), cost=cost))
        self.channel = Channel(gpu, "host", compression=self._busy or compression)

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

    def begin_pass(self) -> None:
        """Take what follows for the transfers of another step."""
        if self._busy is not None:
            self._busy.begin_round()

    def send(self, tensor: Any) -> tuple[Parcel, End]:
        """Begin to send a tensor in C order to the host; raises NoRoomError."""
        try:
            parcel, record = self.channel.begin_offload(tensor, _tag(tensor.shape, tensor.dtype))
        except LanescopeError as error:
            cause = error.__cause__
            if isinstance(cause, native.NativeError) and cause.args[1] == _NO_MEMORY:
                raise NoRoomError from error
            raise
        own = torch.cuda.current_stream(self._gpu)
        tensor.record_stream(own)  # it waits for the end, and the memory may be another's
        return parcel, End(record, own)

    def bring(self, sent: Parcel) -> tuple[Any, End]:
        """Begin to bring one back, into new memory of the current stream."""
        room = torch.empty(sent.shape, dtype=sent.dtype, device=f"cuda:{self._gpu}")
        record = self.channel.begin_restore(sent, room)
        if self._busy is not None:
            self._busy.count(sent.bytes)
        return room, End(record, torch.cuda.current_stream(self._gpu))

    def reserve(self, size: int) -> None:
        """Pin so much of the host's memory in all; raises NoRoomError."""
        missing = int(size * (1 + _UNUSED)) - self.channel.pinned_bytes
        if missing <= 0:
            return
        try:
            self.channel.prepare(missing)
        except LanescopeError as error:
            raise NoRoomError from error

    def wait(self, end: End, used: Any = None) -> None:
        """Let the stream of the tensor's memory wait, and the current one, which may use it."""
        own = end.stream.cuda_stream
        self.channel.join(end.record, own)
        current = current_stream("torch", self._gpu)
        if current == own:  # of whose memory it is
            return
        self.channel.join(end.record, current)
        if used is not None:
            used.record_stream(torch.cuda.current_stream(self._gpu))
