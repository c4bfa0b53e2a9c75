"""Refuses link parameters that no link has: mostly a number in another unit.

The bounds are far apart: 1 MB/s to 100 TB/s, a tenth of a second for what takes microseconds.
What a fit measured on any machine lies within, however disturbed it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from lanescope.codec.fields import FieldError
from lanescope.machine import HostBandwidth
from lanescope.prediction.curves import Curve
from lanescope.prediction.parameters import CopyCost, LinkParameters
from lanescope.units.estimate import Estimate

#: Seconds for each byte.
_LEAST_PER_BYTE, _MOST_PER_BYTE = 1e-14, 1e-6
#: Seconds that a call, a launch or the gap between two copies takes.
_MOST_CALL = 0.1
#: Seconds of a curve: what takes microseconds, and its bytes at the slowest.
_MOST_FIXED = 1.0
#: How many times as long, or as short, as by ``first`` and ``per_byte`` a copy may take by size.
_MOST_TIMES = 30
_MOST_FACTOR = 100
_MOST_HOST_GBS = 1e4
_COPIES = ("h2d", "d2h", "pageable_h2d", "pageable_d2h", "fresh_d2h")
_CALLS = ("first", "gap", "call", "event_call")


def require_possible(parameters: LinkParameters) -> None:
    """Refuse parameters that no link has.

    Raises
    ------
    FieldError
        With the field, and what it may be.
    """
    if parameters.copy_engines not in (1, 2):
        raise FieldError("field 'copy_engines' must be 1 or 2", "copy_engines")
    for name in _COPIES:
        direction = getattr(parameters, name)
        if direction is not None and not direction.per_byte.low > 0:
            raise FieldError("field 'per_byte' must be above zero", "per_byte", name)
    for name in ("duplex", "explicit_mapped"):
        duplex = getattr(parameters, name)
        if duplex is not None and not min(duplex.h2d_per_byte.low, duplex.d2h_per_byte.low) > 0:
            raise FieldError("both directions' 'per_byte' must be above zero", name, name)
    for field in dataclasses.fields(parameters):
        _require(getattr(parameters, field.name), (field.name,))
    for name in _COPIES:
        if (cost := getattr(parameters, name)) is not None:
            _require_alike(cost, name)
    for number, one in enumerate(parameters.host_bandwidth):
        _require_host_bandwidth(one, number)


def _require(value: Any, path: tuple[str, ...]) -> None:
    """Look at each estimate of a value by the name of its field."""
    if isinstance(value, Estimate):
        _require_estimate(value, path)
    elif isinstance(value, Curve):
        for place, (size, seconds) in enumerate(zip(value.sizes, value.seconds, strict=True)):
            if seconds.high > (most := _MOST_FIXED + size * _MOST_PER_BYTE):
                where = (*path, f"seconds[{place}]")
                raise _wrong(where, seconds.high, f"seconds for {size} bytes, at most {most:.3g}")
    elif isinstance(value, tuple):
        for place, one in enumerate(value):
            _require(one, (*path[:-1], f"{path[-1]}[{place}]"))
    elif dataclasses.is_dataclass(value) and not isinstance(value, HostBandwidth):
        for field in dataclasses.fields(value):
            _require(getattr(value, field.name), (*path, field.name))


def _require_estimate(one: Estimate, path: tuple[str, ...]) -> None:
    name = path[-1]
    if name.endswith("per_byte"):
        if not (one.value >= _LEAST_PER_BYTE and one.high <= _MOST_PER_BYTE):
            wrong = one.high if one.high > _MOST_PER_BYTE else one.value
            words = f"seconds for each byte, {_LEAST_PER_BYTE:g} to {_MOST_PER_BYTE:g}"
            raise _wrong(path, wrong, f"{words}, as 2e-11 for 50 GB/s")
    elif name in _CALLS:
        if one.high > _MOST_CALL:
            raise _wrong(path, one.high, f"seconds, at most {_MOST_CALL:g}")
    elif one.high > _MOST_FACTOR:  # of a mixture
        raise _wrong(path, one.high, f"times as long, at most {_MOST_FACTOR}")


def _require_alike(cost: CopyCost, name: str) -> None:
    """Refuse times by size that have nothing to do with those of no bytes and of long copies."""
    for field, curve, least in _curves(cost):
        for place, (size, seconds) in enumerate(zip(curve.sizes, curve.seconds, strict=True)):
            flowing = size * cost.per_byte.value
            whole = cost.first.value + cost.gap.value + flowing
            few = {"whole": whole, "bytes": flowing, "": 0.0}[least] / _MOST_TIMES
            if not few <= seconds.value <= whole * _MOST_TIMES:
                raise _wrong(
                    (name, f"{field}.seconds[{place}]"),
                    seconds.value,
                    f"seconds for {size} bytes, {few:.3g} to {whole * _MOST_TIMES:.3g} by 'first', "
                    "'gap' and 'per_byte'",
                )


def _curves(cost: CopyCost) -> Iterator[tuple[str, Curve, str]]:
    """Yield each curve with its name, and what it cannot be far below."""
    if cost.single is not None:
        yield "single", cost.single, "whole"
    if cost.engine is not None:
        yield "engine", cost.engine, "bytes"
    if cost.call is not None:
        yield "call", cost.call, ""
    if cost.next is not None:
        for place, curve in enumerate(cost.next.curves):
            yield f"next.curves[{place}]", curve, "bytes"


def _require_host_bandwidth(one: HostBandwidth, number: int) -> None:
    for field in ("read_gbs", "write_gbs", "both_gbs"):
        if (getattr(one, field) or 0) > _MOST_HOST_GBS:
            problem = f"GB/s (1e9 bytes a second), at most {_MOST_HOST_GBS:g}"
            raise _wrong((f"host_bandwidth[{number}]", field), getattr(one, field), problem)
    if one.spread >= 1:
        raise _wrong((f"host_bandwidth[{number}]", "spread"), one.spread, "a share below 1")
    if one.at_capacity > 1:
        raise _wrong((f"host_bandwidth[{number}]", "at_capacity"), one.at_capacity, "a share to 1")


def _wrong(path: tuple[str, ...], found: float, words: str) -> FieldError:
    problem = f"field {path[-1]!r} is {found:.4g}; it is {words}"
    return FieldError(problem, path[-1], path[0], inside=".".join(path[1:-1]) or None)
