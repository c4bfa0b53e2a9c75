"""The cases that were measured on an H200, and cases made by hand."""

from pathlib import Path

from lanescope.prediction.predictor import Method
from lanescope.store.folder import RunFolder
from lanescope.studies.ocean.case import GridCase
from lanescope.studies.ocean.measured import (
    FILE,
    MeasuredCase,
    OutputCheck,
    TimedMethod,
    Validation,
    load,
    save,
)
from lanescope.studies.ocean.reference import Kernel

FOLDER = Path(__file__).parents[3] / "benchmarks" / "results" / "h200-x1" / "model" / "validate"


def h200():
    return load(FOLDER / "validation.json")


def saved(whole, folder):
    with RunFolder(folder, "validate") as run:
        save(whole, run)
    return folder / FILE


def timed(method, streams, milliseconds, spread=0.0):
    """Seven runs, from `spread` below to as much above, as a share."""
    return TimedMethod(
        method, streams, tuple(milliseconds * 1e-3 * (1 + spread * i / 3) for i in range(-3, 4))
    )


def case(*rows, kernel=Kernel.AXPY, checks=()):
    one = GridCase(kernel)
    return MeasuredCase(
        one.kernel, one.equation, one.outputs, 1.0, (3e-4,), (3.2e-4,), tuple(rows), tuple(checks)
    )


def check(largest=0.0, method=Method.EXPLICIT):
    return OutputCheck(method, 1, "sum", "", 1e-13, 10, largest)


def validation(*cases, **changes):
    told = {
        "gpu": "NVIDIA Test",
        "grid": (64, 48, 10),
        "seed": 0,
        "started": "2026-11-21T12:00:00+00:00",
        "tool_version": "0",
        "finished": True,
        "cases": cases,
    }
    return Validation(**(told | changes))
