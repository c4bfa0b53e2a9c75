"""Boosted programs that a Python program starts, itself among them."""

from __future__ import annotations

import os
import re

from lanescope.boosting.running import (
    BATCH_LIBRARY,
    DEFAULT_FROM_BYTES,
    DEFAULT_RING_BYTES,
    LEAST_RING_BYTES,
    LIBRARY,
    OPTIONS_VARIABLE,
    BoostOptions,
    boost_library,
)
from lanescope.calls import checked
from lanescope.errors import InputError, MissingPartError
from lanescope.units.sizes import Size, size_of
from lanescope.watching.launcher import program_environment
from lanescope.watching.sources.injection import PRELOAD_VARIABLE, preload_variables

_ONLY = ("h2d", "d2h")
_MOST_THREADS = 64


@checked
def environment(
    *,
    threads: int | None = None,
    ring: Size = DEFAULT_RING_BYTES,
    from_size: Size = DEFAULT_FROM_BYTES,
    only: str | None = None,
    always: bool = False,
    batch: bool = False,
) -> dict[str, str]:
    """Return this process's environment with what boosts programs that are started in it.

    >>> subprocess.run(command, env=lanescope.boosting.environment())  # doctest: +SKIP

    Nothing is said at a program's end, as `lanescope boost` does.

    Parameters
    ----------
    threads, ring, from_size, only, always, batch
        As the options of ``lanescope boost`` with these names (`from_size`: ``--from``).

    Raises
    ------
    InputError
        If an argument is out of range, or the library cannot be named to the loader; a
        `MissingPartError` if it is not installed.
    """
    ring_bytes, from_bytes = size_of(ring), size_of(from_size)
    if threads is not None and not 1 <= threads <= _MOST_THREADS:
        raise InputError(f"threads={threads} cannot be; give 1 to {_MOST_THREADS}, or None")
    if ring_bytes < LEAST_RING_BYTES:
        raise InputError(f"ring={ring_bytes} is too small; give 8 MiB or more")
    if only is not None and only not in _ONLY:
        raise InputError(f"only={only!r} is not known; give 'h2d' or 'd2h', or None for both")
    library = boost_library(batch=batch)
    if library is None:
        name = BATCH_LIBRARY if batch else LIBRARY
        raise MissingPartError(f"{name} is missing from this installation; reinstall lanescope")
    if re.search(r"[\s:]", str(library)):
        raise InputError(
            f"{library} has a blank or a colon in its path, which LD_PRELOAD cannot hold; install "
            "lanescope elsewhere, or use 'lanescope boost'"
        )
    options = BoostOptions(threads, ring_bytes, from_bytes, only, always, batch=batch)
    around = program_environment()
    preloaded = preload_variables(library, around, library.parent, behind_others=True)
    return {**around, **preloaded, OPTIONS_VARIABLE: options.text()}


@checked
def is_boosted() -> bool:
    """Whether this process was started to be boosted."""
    preloaded = os.environ.get(PRELOAD_VARIABLE, "")
    return OPTIONS_VARIABLE in os.environ and (LIBRARY in preloaded or BATCH_LIBRARY in preloaded)
