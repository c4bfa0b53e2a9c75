"""Where the rings of a watch's processes lie."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from lanescope.codec.opening import open_file
from lanescope.errors import InputError

#: Among the spools, the folder of the rings or a link to it.
RINGS = "rings"
#: Where rings are no files of a disk, and how their folders' names begin there.
SHARED_MEMORY = Path("/dev/shm")
#: Names of the spools of calls, among those of traces.
CALL_SPOOLS = "trace.*.calls.bin"
PREFIX = "lanescope-"
#: In the folder of the rings: the folder of the spools that they belong to.
_OWNER = "owner"
_LONGEST_PATH = 1 << 16


def rings_in(folder: Path) -> Iterator[Path]:
    """Yield the rings of a folder; none where it is gone."""
    yield from sorted(folder.glob("calls.*.ring"))


def claim(rings: Path, spools: Path) -> None:
    """Write into a folder of rings whose they are; raises OSError."""
    with (rings / _OWNER).open("x") as file:
        file.write(str(spools.absolute()))


def rings_of(spools: Path) -> Path | None:
    """Return the folder of the rings that are a watch's own; None where there is none.

    A run of somebody else may hold a link to the rings of another watch: those name that one.
    """
    link = spools / RINGS
    try:
        target = link.resolve(strict=True) if link.is_symlink() else link
        if target != link and (
            target.parent != SHARED_MEMORY or not target.name.startswith(PREFIX)
        ):
            return None
        with open_file(target / _OWNER, inner=1) as file:
            owner = file.read(_LONGEST_PATH).decode("utf-8", "surrogateescape")
        own = target.stat().st_uid == os.getuid() and owner == str(spools.absolute())
    except (OSError, InputError):
        return None
    return target if own else None


def remove_rings(spools: Path) -> None:
    """Remove the rings of a watch; processes that still run go on writing to what is theirs."""
    if (rings := rings_of(spools)) is None:
        return
    with contextlib.suppress(OSError):
        for path in rings.iterdir():
            path.unlink()
        rings.rmdir()
    with contextlib.suppress(OSError):
        (spools / RINGS).unlink()
