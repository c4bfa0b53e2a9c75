"""Options that several studies have."""

from __future__ import annotations

from typing import Any

from lanescope.studies.study import Option
from lanescope.units.values import Size, Whole

#: No machine that is known has more of one kind.
MOST_PARTS = 1023


def gpu_option(help: str) -> Option:
    """Return the option for numbers of GPUs."""
    value = Whole("--gpu", 0, MOST_PARTS, "more are in no machine")
    return Option(value, "N", f"{help}; may be repeated.", repeated=True)


def size_option(help: str, default: str | None, name: str = "--size", **bounds: Any) -> Option:
    """Return an option for the size of copies, in bytes; `bounds` as of `Size`."""
    return Option(Size(name, **bounds), "SIZE", help, default)
