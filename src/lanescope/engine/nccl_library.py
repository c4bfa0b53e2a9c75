"""Where NCCL is."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

#: Names the library, where the one that is found is not the one that is meant.
VARIABLE = "LANESCOPE_NCCL"
_NAME = "libnccl.so.2"
_PACKAGE = "nvidia.nccl"


def library() -> str:
    """Return NCCL from its Python package, else the name that the loader looks for."""
    if named := os.environ.get(VARIABLE):
        return named
    try:
        package = find_spec(_PACKAGE)
    except ModuleNotFoundError:  # of what it would lie in
        return _NAME
    folders = (package.submodule_search_locations or ()) if package else ()
    paths = (Path(folder, "lib", _NAME) for folder in folders)
    return str(next(filter(Path.is_file, paths), _NAME))
