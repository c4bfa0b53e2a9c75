"""PyTorch's copies between CPU tensors and GPUs, taken from it below autograd."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lanescope.boosting.arrays import copy_to_gpu, copy_to_host, require_library
from lanescope.errors import LanescopeError
from lanescope.units.sizes import size_text

HOST, GPU = "cpu", "cuda"
#: Smaller copies, which the driver makes as fast, are left to PyTorch.
LEAST_TO_HOST, LEAST_TO_GPU = 256 << 10, 4 << 20
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_TO = torch.ops.aten._to_copy.default
_COPY = torch.ops.aten.copy_.default
#: What becomes `_TO`, or nothing: without inference mode before it comes here.
_MAYBE_TO = torch.ops.aten.to
#: Arguments of `_TO` with which it does nothing but move a tensor that has no gaps.
_ONLY_MOVES = {
    "layout": (None, torch.strided),
    "pin_memory": (None, False),
    "memory_format": (None, torch.preserve_format, torch.contiguous_format),
}


class BoostedCopies(TorchDispatchMode):  # type: ignore[misc]  # PyTorch may be missing
    """Carries what is worth it; whatever else PyTorch does goes its own way, to the same values.

    Attributes
    ----------
    copies, bytes
        That were handed to the boost, whose rule decides how each goes.
    """

    def __init__(self) -> None:
        super().__init__()
        require_library()
        self.copies = self.bytes = 0
        self._has_failed = False

    def __str__(self) -> str:
        copies = "1 copy" if self.copies == 1 else f"{self.copies} copies"
        return f"{copies} of {size_text(self.bytes)} between CPU tensors and GPUs"

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep PyTorch from importing its compiler, which takes seconds, at the first operation."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Do what PyTorch was going to do."""
        done = _done_uncompiled if "torch._dynamo" in sys.modules else BoostedCopies._done
        return done(self, func, args, kwargs or {})

    def _done(self, func: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        if getattr(func, "overloadpacket", None) is _MAYBE_TO:
            with self:
                return func.decompose(*args, **given)
        if func is _TO:
            moved = self._moved(args[0], given)
            if moved is not None:
                return moved
        elif func is _COPY and len(args) > 1 and self._is_copied(args[0], args[1]):
            return args[0]
        return func(*args, **given)

    def _moved(self, source: Any, given: dict[str, Any]) -> torch.Tensor | None:
        """Return a tensor on another device; None where PyTorch is to make it."""
        device = given.get("device")
        if device is None or given.get("dtype") not in (None, source.dtype):
            return None
        if any(given.get(name) not in may for name, may in _ONLY_MOVES.items()):
            return None
        if not _may_go(source, torch.device(device).type):
            return None
        made = torch.empty(source.shape, dtype=source.dtype, device=device)
        return made if self._carry(made, source) else None

    def _is_copied(self, target: Any, source: Any) -> bool:
        """Copy to a tensor that is there; return False where PyTorch is to do it."""
        return (
            _may_go(source, target.device.type)
            and _has_plain_values(target)
            and target.dtype == source.dtype
            and target.shape == source.shape
            and self._carry(target, source)
        )

    def _carry(self, target: torch.Tensor, source: torch.Tensor) -> bool:
        to_gpu = target.device.type == GPU
        gpu = (target if to_gpu else source).device.index
        if self._has_failed or torch.cuda.is_current_stream_capturing():
            return False
        copy = copy_to_gpu if to_gpu else copy_to_host
        try:
            copy(target.data_ptr(), source.data_ptr(), source.nbytes, _stream_of(gpu), gpu)
        except LanescopeError as error:
            self._has_failed = True
            warnings.warn(f"PyTorch copies by itself from here on: {error}", stacklevel=2)
            return False
        self.copies += 1
        self.bytes += source.nbytes
        return True


#: Imports PyTorch's compiler when it is called first.
_done_uncompiled = torch._disable_dynamo(BoostedCopies._done, recursive=True)


def _may_go(source: Any, to: str) -> bool:
    """Whether a tensor may be copied to a kind of device: the host's from GPUs, or a GPU's."""
    least = LEAST_TO_HOST if to == HOST else LEAST_TO_GPU
    crosses = {source.device.type, to} == {HOST, GPU}
    return crosses and _has_plain_values(source) and source.nbytes >= least


def _has_plain_values(tensor: Any) -> bool:
    """Whether a tensor's memory holds its values, side by side, and is not pinned."""
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and not (tensor.is_nested or tensor._is_zerotensor())
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)
        and not (tensor.device.type == HOST and tensor.is_pinned())
    )


def _stream_of(gpu: int) -> int:
    return int(torch.cuda.current_stream(gpu).cuda_stream)
