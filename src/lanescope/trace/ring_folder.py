"""Where the rings of a watch's processes lie."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

#: Among the spools, the folder of the rings or a link to it.
RINGS = "rings"
#: Where rings are no files of a disk, and how their folders' names begin there.
SHARED_MEMORY = Path("/dev/shm")
PREFIX = "lanescope-"


def rings_in(folder: Path) -> Iterator[Path]:
    """Yield the rings of a folder; none where it is gone."""
    yield from sorted(folder.glob("calls.*.ring"))


def remove_rings(spools: Path) -> None:
    """Remove the rings of a watch; processes that still run go on writing to what is theirs."""
    if (rings := rings_of(spools)) is None:
        return
    with contextlib.suppress(OSError):
        for path in rings_in(rings):
            path.unlink()
        rings.rmdir()
    with contextlib.suppress(OSError):
        (spools / RINGS).unlink()


def rings_of(spools: Path) -> Path | None:
    """Return the folder of rings: one of a watch's own, wherever the link leads."""
    link = spools / RINGS
    if link.is_dir() and not link.is_symlink():
        return link
    try:
        target = link.resolve(strict=True)
    except OSError:
        return None
    ours = target.parent == SHARED_MEMORY and target.name.startswith(PREFIX)
    return target if ours and target.is_dir() else None
