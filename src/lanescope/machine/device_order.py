"""The order in which CUDA numbers GPUs, in processes that are lanescope's alone."""

from __future__ import annotations

import os

VARIABLE = "CUDA_DEVICE_ORDER"
_BY_ADDRESS = "PCI_BUS_ID"

_set_here: list[str] = []


def number_by_address() -> None:
    """Have CUDA number GPUs as nvidia-smi and people do, unless somebody has chosen an order.

    For the command line: it changes the environment, which CUDA reads at its first call. The
    package never calls it, as it is a guest in its caller's process.
    """
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = _BY_ADDRESS
        _set_here.append(_BY_ADDRESS)


def is_ours() -> bool:
    """Return whether the order is the one that `number_by_address` has set."""
    return bool(_set_here) and os.environ.get(VARIABLE) == _set_here[0]
