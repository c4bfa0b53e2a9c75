"""The memory that saved tensors lie in, which is what travels: once, however many are in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from lanescope.torch.saved import key_of

#: A tensor with gaps travels with all of its storage, unless that is more than so many times it.
_MOST_TIMES = 4


@dataclass(frozen=True, slots=True)
class View:
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
    view: View

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
        Whether memory, by its `lanescope.torch.saved.key_of`, is saved already.
    """
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    order = memory_order(tensor)
    if order is not None:
        values = tensor.detach().permute(order)
        return Region(values, values, View(shape, stride, 0))
    storage = tensor.untyped_storage()
    size, element = storage.nbytes(), tensor.element_size()
    if size % element:
        return None
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    whole.set_(storage, 0, (size // element,), (1,))
    used = tensor.numel() * element
    if used * _MOST_TIMES < size and not is_known(key_of(whole, size)):
        return None
    return Region(whole, tensor.detach(), View(shape, stride, tensor.storage_offset()))


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
