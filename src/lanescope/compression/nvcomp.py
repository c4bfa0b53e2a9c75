"""NVIDIA's nvCOMP, where it is installed: the library behind the codecs ``ans`` and ``bitcomp``.

It is proprietary, and an optional extra (``pip install 'lanescope[nvcomp]'``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from lanescope._core import native
from lanescope.compression.stream import Codec
from lanescope.errors import InputError

#: Other major versions have other functions, and code otherwise.
_NAME = "libnvcomp.so.6"
_PACKAGE = "nvidia.libnvcomp"
_FOLDERS = ("lib64", "lib")


def nvcomp_for(codec: str) -> native.Nvcomp | None:
    """Return nvCOMP for a codec that needs it, None for others.

    Raises
    ------
    InputError
        If it is needed and not installed.
    """
    if not Codec(codec).by_nvcomp:
        return None
    try:
        return open_nvcomp()
    except native.NativeError as error:
        raise InputError(
            f"codec {codec} needs a GPU and nvCOMP: pip install 'lanescope[nvcomp]' "
            f"({error.args[3]})"
        ) from error


def there_is_nvcomp() -> bool:
    """Return whether it is installed, and can be opened."""
    try:
        open_nvcomp()
    except native.NativeError:
        return False
    return True


@cache
def open_nvcomp() -> native.Nvcomp:
    """Return nvCOMP from its Python package, else what the loader finds.

    Raises
    ------
    NativeError
        If there is none, or one of another major version.
    """
    return native.Nvcomp(str(next(_installed(), _NAME)))


def _installed() -> Iterator[Path]:
    try:
        package = find_spec(_PACKAGE)
    except ModuleNotFoundError:  # of what it would lie in
        return
    for folder in (package.submodule_search_locations or ()) if package else ():
        paths = (Path(folder, name, _NAME) for name in _FOLDERS)
        yield from (path for path in paths if path.is_file())
