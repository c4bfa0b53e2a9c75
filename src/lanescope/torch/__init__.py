"""For programs of PyTorch: activations that wait in the host's memory while a model trains.

>>> with lanescope.torch.offload_activations():  # doctest: +SKIP
...     loss = model(batch)
>>> loss.backward()  # doctest: +SKIP
"""

from lanescope.torch.activations import Moved, OffloadedActivations, offload_activations
from lanescope.torch.distributed import broadcast, irecv, isend, recv, send, transfers

__all__ = [
    "Moved",
    "OffloadedActivations",
    "broadcast",
    "irecv",
    "isend",
    "offload_activations",
    "recv",
    "send",
    "transfers",
]
