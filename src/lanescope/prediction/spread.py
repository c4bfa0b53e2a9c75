"""How far predictions are off on machines and days other than the fit's, by what they are of.

The shares come from ``benchmarks/model/across_machines.py``, which compares stored fits with what
other machines of the same kind measured: transfers of fits, and workloads that nothing was fitted
to. All rounds count, also those that something disturbed.
"""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass
from functools import lru_cache

from lanescope.codec.fields import build
from lanescope.prediction.workload import MAPPED, STREAMED, Method, Workload

FILE = "spread.json"


@dataclass(frozen=True, slots=True)
class Spread:
    """Where 95 % of the measured times lie, as shares of the predicted one.

    Attributes
    ----------
    regime
        Such as ``single``: see `regime_of`.
    most_bytes
        Of a copy up to which it holds; None: any.
    low, high
        Shares.
    count
        Of times compared.
    """

    regime: str
    most_bytes: int | None
    low: float
    high: float
    count: int


@lru_cache(maxsize=1)
def spreads() -> tuple[Spread, ...]:
    """Return the shares that ship, by regime and rising size."""
    file = importlib.resources.files("lanescope.prediction") / FILE
    table = json.loads(file.read_text(encoding="utf-8"))
    return tuple(build(Spread, one, "spreads", number) for number, one in enumerate(table))


def spread_of(workload: Workload, method: Method, streams: int) -> Spread | None:
    """Return the share that holds for a method of a workload; None where none is known."""
    regime = regime_of(workload, method, streams)
    size = copy_bytes(workload, method, streams)
    return next(
        (
            one
            for one in spreads()
            if one.regime == regime and (one.most_bytes is None or size <= one.most_bytes)
        ),
        None,
    )


def regime_of(workload: Workload, method: Method, streams: int) -> str:
    """Return what a prediction is of.

    ``single``: copies one after the other; ``many``: on many streams, one way or both;
    ``pageable`` and ``fresh``; ``implicit`` and ``hybrid``, each with ``-assumed`` where nobody
    said how the kernel reaches mapped memory.
    """
    if method is Method.PAGEABLE:
        return "fresh" if workload.fresh_output else "pageable"
    if method in MAPPED:
        return f"{method.lower()}{'-assumed' if workload.mapped_assumed else ''}"
    return "many" if method in STREAMED and streams > 1 else "single"


def copy_bytes(workload: Workload, method: Method, streams: int) -> int:
    """Return the bytes of one copy, of the direction with more of them."""
    parts = streams if method in STREAMED else 1
    return max(
        workload.h2d_bytes // (workload.h2d_arrays * workload.h2d_copies(parts)),
        workload.d2h_bytes // (workload.d2h_arrays * workload.d2h_copies(parts)),
    )
