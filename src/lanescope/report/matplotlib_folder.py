"""A folder for matplotlib's settings and fonts where the home folder has no room for them.

matplotlib makes one itself then, and warns; nobody who wants a picture can do anything about it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VARIABLE = "MPLCONFIGDIR"
#: Where matplotlib keeps what it keeps: the variable, and the folder in the home folder.
_PLACES = (("XDG_CONFIG_HOME", ".config"), ("XDG_CACHE_HOME", ".cache"))


@contextmanager
def writable_folder() -> Iterator[None]:
    """Import matplotlib in this block; a temporary folder is removed when the process ends."""
    if "matplotlib" in sys.modules or os.environ.get(_VARIABLE) or _at_home():
        yield
        return
    folder = tempfile.mkdtemp(prefix="lanescope-matplotlib-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_VARIABLE] = folder
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def _at_home() -> bool:
    """Return whether matplotlib can keep its things where it does by itself."""
    return all(_can_be_made(variable, folder) for variable, folder in _PLACES)


def _can_be_made(variable: str, folder: str) -> bool:
    named = os.environ.get(variable)
    try:
        path = Path(named) if named else Path.home() / folder
        path = path / "matplotlib"
        while not os.path.lexists(path) and path != path.parent:
            path = path.parent
        return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):  # nobody knows where home is
        return False
