"""How a library of ours comes to be loaded before a program's others."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path

PRELOAD_VARIABLE = "LD_PRELOAD"
#: A program with AddressSanitizer refuses to start where any library is loaded before its own.
_ASAN_VARIABLE, _ANY_ORDER = "ASAN_OPTIONS", "verify_asan_link_order=0"
#: The folder of the program for the loader; none has more folders above it.
_ORIGIN, _MOST_FOLDERS = "$ORIGIN", 64


def preload_variables(
    library: Path, around: Mapping[str, str], links: Path, *, behind_others: bool = False
) -> dict[str, str]:
    """Return the variables by which the loader of glibc loads a library before all others.

    Parameters
    ----------
    library
        The library.
    around
        The environment that the program has besides; what it is to have preloaded stays.
    links
        A folder for a link to the library, where its path holds blanks or colons.
    behind_others
        Whether it comes behind what is preloaded besides, and not before it.
    """
    ours = _preloaded(_without_separators(library, links))
    others = words(around.get(PRELOAD_VARIABLE, ""), " :")
    all_of_them = (*others, ours) if behind_others else (ours, *others)
    asan = around.get(_ASAN_VARIABLE)
    return {
        PRELOAD_VARIABLE: ":".join(dict.fromkeys(all_of_them)),
        _ASAN_VARIABLE: f"{asan}:{_ANY_ORDER}" if asan else _ANY_ORDER,
    }


def words(text: str, separators: str) -> list[str]:
    """Return the words of a variable, by any of some separators."""
    return [word for word in re.split(f"[{separators}]", text) if word]


def _preloaded(library: Path) -> str:
    """Return the name by which the loader of glibc finds a library, and that of musl none.

    That of musl refuses to start a program with a library for glibc, and passes over one that is
    not there. It takes the name as it is, where glibc puts the folder of the program.
    """
    return f"{_ORIGIN}/{'../' * _MOST_FOLDERS}{str(library).lstrip('/')}"


def _without_separators(library: Path, links: Path) -> Path:
    """Return a path that LD_PRELOAD can hold: the loader takes blanks and colons for separators."""
    if not re.search(r"[\s:]", str(library)):
        return library
    link = links / library.name
    with contextlib.suppress(FileExistsError):
        link.symlink_to(library)
    return link
