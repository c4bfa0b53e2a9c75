"""The steps of a program of ``lanescope.examples``, as it has told them itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lanescope.codec.fields import build
from lanescope.errors import InputError
from lanescope.units.bandwidth import bandwidth_gbs


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a program, in nanoseconds since 1970.

    Attributes
    ----------
    h2d_bytes, d2h_bytes
        That it has sent to the GPU, and got from it.
    copies
        By which it did.
    """

    name: str
    begin_ns: int
    end_ns: int
    h2d_bytes: int
    d2h_bytes: int
    copies: int

    def __post_init__(self) -> None:
        if self.end_ns < self.begin_ns:
            raise ValueError(f"step {self.name!r} ends before it begins")

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end_ns - self.begin_ns) * 1e-9

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes to the GPU, and from it."""
        return (self.h2d_bytes, self.d2h_bytes)

    @property
    def gbs(self) -> tuple[float, float]:
        """Rate to the GPU and from it over the whole step, in GB/s; 0 where it took no time."""
        took = self.seconds
        down, up = (bandwidth_gbs(b, took) if took > 0 else 0.0 for b in self.moved)
        return down, up


def parse_steps(text: str) -> tuple[Step, ...]:
    """Return the steps that a program printed with ``--json``.

    Raises
    ------
    InputError
        If these are none.
    """
    try:
        return steps_of(json.loads(text.strip().splitlines()[-1])["steps"])
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise InputError(
            "the program has not told its steps; run it alone to see why: python3 -m "
            "lanescope.examples NAME --json"
        ) from error


def steps_of(values: Sequence[dict[str, Any]]) -> tuple[Step, ...]:
    """Return steps of plain values; raises `FieldError`."""
    return tuple(build(Step, one, "steps", i, others=True) for i, one in enumerate(values))


def steps_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return steps as plain values."""
    return [asdict(step) for step in steps]


def work_seconds(steps: Sequence[Step]) -> float:
    """Return how long the program worked, from its first step to its last; its start is left out.

    What comes before, such as the start of Python and of CUDA, is no part of any step.
    """
    return (max(step.end_ns for step in steps) - min(step.begin_ns for step in steps)) * 1e-9


def moving(steps: Sequence[Step], least_bytes: int = 1) -> tuple[Step, ...]:
    """Return the steps that move at least so many bytes."""
    return tuple(step for step in steps if sum(step.moved) >= least_bytes)


def moved(steps: Iterable[Step]) -> tuple[int, int]:
    """Return the bytes that steps move to the GPU, and from it."""
    pairs = [step.moved for step in steps]
    return sum(down for down, _ in pairs), sum(up for _, up in pairs)
