"""How a suite's settings and numbers are called in words."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from lanescope.copies import Operation
from lanescope.units.sizes import size_text
from lanescope.units.words import three_digits

_OPERATIONS = {
    Operation.ALLOCATE: "allocation",
    Operation.TOUCH: "first touch",
    Operation.RELEASE: "release",
    Operation.CHASE: "dependent loads in order",
    Operation.CHASE_RANDOM: "dependent loads at random",
    Operation.GATHER: "independent loads",
}

_FIELDS = {
    "source": "place",
    "gpu": "GPU",
    "memory": "kind of memory",
    "who": "participants",
    "where": "near and far memory",
}


def fields_text(fields: Sequence[str]) -> str:
    """Return what tells curves apart, for a title: ``by path and thread``; empty for nothing."""
    *first, last = [_FIELDS.get(f, f) for f in fields] or [""]
    return f" by {', '.join(first)} and {last}" if first else f" by {last}" if last else ""


def field_text(field: str, value: Hashable) -> str:
    """Return a field's value for a legend or a title, such as ``thread on h1``."""
    match field:
        case "thread":
            return "thread anywhere" if value is None else f"thread on {value}"
        case "operation":
            return operation_text(str(value))
        case "stride":
            return f"every {size_text(float(str(value)))}" if value else "one by one"
        case "source":
            return f"in {value}"
        case "node":
            return f"memory of {value}"
        case "direction":
            return {"h2d": "to the GPU", "d2h": "from the GPU", "both": "both ways"}.get(
                str(value), str(value)
            )
        case "where":
            return {"near": "near memory", "far": "far memory"}.get(
                str(value), f"memory of {value}"
            )
        case "pattern":
            return f"{value} blocks"
        case "caches":
            return f"caches {value}"
        case "route":
            return str(value) or "driver's choice"
    return str(value)


def operation_text(operation: str) -> str:
    """Return an operation for people; ``allocate`` is an allocation."""
    return _OPERATIONS.get(Operation(operation), operation)


def times_text(ratio: float) -> str:
    """Return how much longer: a percentage up to twice, then a factor.

    >>> times_text(1.38), times_text(300.4)
    ('38 % longer than', '300 times as long as')
    """
    if ratio < 2:
        return f"{(ratio - 1) * 100:.0f} % longer than"
    return f"{three_digits(ratio)} times as long as"


def percent(share: float) -> str:
    """Return a share as a whole percentage, with a decimal where it is small."""
    return f"{share * 100:.0f} %" if abs(share) >= 0.0995 else f"{share * 100:.1f} %"
