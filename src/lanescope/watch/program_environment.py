"""The environment that a watched program gets: the user's, without what Python or we put there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lanescope.machine.device_order import VARIABLE, is_ours

#: Python sets LC_CTYPE to one of these where the locale is that of C (PEP 538).
_COERCED = (b"C.UTF-8", b"C.utf8", b"UTF-8")
_OF_C = (None, b"", b"C", b"POSIX")
_LOCALE = b"LC_CTYPE"


def program_environment() -> dict[str, str]:
    """Return this process's environment as a program is to have it.

    What somebody has changed in ``os.environ`` since the start stays changed.
    """
    return without_ours(os.environb, _at_start())


def without_ours(now: Mapping[bytes, bytes], at_start: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return an environment without the locale that Python, and the order that we, have set.

    Parameters
    ----------
    now, at_start
        The variables of a process, and those that it was started with.
    """
    kept = dict(now)
    before = at_start.get(_LOCALE)
    if kept.get(_LOCALE) in _COERCED and before in _OF_C:
        del kept[_LOCALE]
        if before is not None:
            kept[_LOCALE] = before
    if is_ours():
        kept.pop(VARIABLE.encode(), None)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in kept.items()}


def _at_start() -> dict[bytes, bytes]:
    try:
        words = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # no /proc: what is there counts as the user's
        return dict(os.environb)
    return {name: value for name, equals, value in (w.partition(b"=") for w in words) if equals}
