"""Activations that wait in the host's memory from the forward pass to the backward pass."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Self

from lanescope.calls import checked
from lanescope.copies.requirements import available_host_bytes
from lanescope.errors import InputError
from lanescope.torch.saved import Link, Moved, Pool
from lanescope.units.sizes import Size, size_of

_AHEAD = 1280 << 20
_COMPRESSIONS = ("auto", "on", "off")


@checked
def offload_activations(
    module: Any = None,
    *,
    budget: Size | None = None,
    min_bytes: Size = 1 << 20,
    ahead: Size = _AHEAD,
    compression: str = "auto",
    gpu: int | None = None,
) -> OffloadedActivations:
    """Let what the forward pass saves for the backward pass wait in pinned memory of the host.

    Each tensor of `min_bytes` and more goes to the host behind the computation and comes back ahead
    of the backward pass, compressed where that is faster. Gradients are the same to the bit.
    Parameters stay on the GPU.

    >>> with lanescope.torch.offload_activations():  # doctest: +SKIP
    ...     loss = model(batch)
    >>> loss.backward()  # doctest: +SKIP

    Parameters
    ----------
    module
        Its forward passes are offloaded from now on, in place of what runs in a ``with``.
    budget
        Of the host's memory, before compression: what does not fit stays on the GPU. By default
        half of what is available.
    min_bytes
        Smaller tensors stay on the GPU.
    ahead
        Of the GPU's memory: five eighths for the tensors that were saved last, which do not travel
        if the backward pass begins, two for those that are leaving, one for those that were brought
        back ahead of their use.
    compression
        ``auto``, ``on`` or ``off``, as with `lanescope.Channel`.
    gpu
        The GPU, as CUDA counts; by default PyTorch's current one.

    Raises
    ------
    InputError
        If PyTorch or a GPU is missing, or an argument is out of range.
    """
    if compression not in _COMPRESSIONS:
        raise InputError(f"compression cannot be {compression!r}; give {', '.join(_COMPRESSIONS)}")
    link = _link(_gpu(gpu), compression)
    most = _half_of_the_memory() if budget is None else size_of(budget)
    offloaded = OffloadedActivations(link, most, size_of(min_bytes), size_of(ahead))
    if module is not None:
        offloaded.around(module)
    return offloaded


class OffloadedActivations:
    """What `offload_activations` returns: a context for forward passes, for as many as wanted.

    Parameters
    ----------
    link
        Moves tensors.
    budget_bytes, min_bytes, ahead_bytes
        As of `offload_activations`.
    """

    def __init__(self, link: Link, budget_bytes: int, min_bytes: int, ahead_bytes: int) -> None:
        self._pool = Pool(link, budget_bytes, ahead_bytes)
        self._least = min_bytes
        self._entered: list[AbstractContextManager[Any]] = []

    @property
    def moved(self) -> Moved:
        """How many tensors went to the host and came back, and their bytes, until now."""
        return self._pool.moved

    @property
    def log(self) -> tuple[Any, ...]:
        """The last transfers of its channel, as `lanescope.Channel.log`."""
        return self._pool.link.log

    def around(self, module: Any) -> None:
        """Offload what the forward passes of a module save, from now on."""
        module.register_forward_pre_hook(lambda *_: self._enter())
        module.register_forward_hook(lambda *_: self._leave(), always_call=True)

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    def _enter(self) -> None:
        import torch

        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._entered.append(hooks)

    def _leave(self) -> None:
        self._entered.pop().__exit__(None, None, None)

    def _pack(self, tensor: Any) -> Any:
        from lanescope.torch.host_link import region_of

        if tensor.numel() * tensor.element_size() < self._least:
            return tensor
        region = region_of(tensor, self._pool.knows) if self._pool.link.takes(tensor) else None
        if region is None or region.bytes < self._least:
            return tensor
        saved = self._pool.save(region.values, region.bytes, region.versioned)
        return tensor if saved is None else (saved, region.view)

    def _unpack(self, packed: Any) -> Any:
        if not isinstance(packed, tuple):
            return packed
        saved, view = packed
        return view.of(self._pool.use(saved))


def _gpu(gpu: int | None) -> int:
    try:
        import torch
    except ImportError:
        raise InputError("PyTorch is missing; pip install torch") from None
    if not torch.cuda.is_available():
        raise InputError("PyTorch can use no GPU here; look at torch.cuda.is_available()")
    return torch.cuda.current_device() if gpu is None else gpu


@cache
def _link(gpu: int, compression: str) -> Link:
    """Return the link of a GPU: its memory is pinned once, however many contexts there are."""
    from lanescope.torch.host_link import HostLink

    return HostLink(gpu, compression)


def _half_of_the_memory() -> int:
    available = available_host_bytes()
    if available is None:
        raise InputError("how much memory is available is unknown here; give budget")
    return available // 2
