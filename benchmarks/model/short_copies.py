"""Many short copies of PyTorch, CuPy and C++ programs, compared with ``predict --host-time``.

``python benchmarks/model/short_copies.py measure DIR`` runs each program alone, in turns, and then
watched; it needs a GPU and a stored fit. ``compare DIR`` takes the time from call to call of the
watch, predicts with it and without, and prints the errors. ``run NAME`` is one of the programs.
Those of C++ are short_copies.cu, which `measure` compiles.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

#: Copies of a step, and bytes of each.
SHAPES = ((64, 1 << 10), (256, 512), (24, 16 << 10))
LIBRARIES = ("torch", "cupy", "cuda")
STEPS, WARMING, TURNS = 300, 20, 3
_BINARY = "/tmp/lanescope-short-copies"


def names() -> list[str]:
    """Return all programs, such as ``torch-64-1024``."""
    return [f"{library}-{count}-{size}" for library in LIBRARIES for count, size in SHAPES]


def run(name: str) -> None:
    """Print the median seconds of a step: so many pageable arrays to the GPU, and a wait."""
    library, count, size = name.split("-")
    step = {"torch": _torch, "cupy": _cupy}[library](int(count), int(size))
    took = []
    for _ in range(WARMING + STEPS):
        began = time.perf_counter()
        step()
        took.append(time.perf_counter() - began)
    print(median(took[WARMING:]))


def _torch(count: int, size: int) -> Callable[[], None]:
    import torch

    arrays = [torch.ones(size, dtype=torch.uint8) for _ in range(count)]
    there = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(count)]

    def step() -> None:
        for source, target in zip(arrays, there, strict=True):
            target.copy_(source)
        torch.cuda.synchronize()

    return step


def _cupy(count: int, size: int) -> Callable[[], None]:
    import cupy
    import numpy as np

    arrays = [np.ones(size, np.uint8) for _ in range(count)]
    there = [cupy.empty(size, np.uint8) for _ in range(count)]

    def step() -> None:
        for source, target in zip(arrays, there, strict=True):
            target.set(source)
        cupy.cuda.runtime.deviceSynchronize()

    return step


def measure(folder: Path) -> None:
    """Time all programs in turns, then watch each."""
    folder.mkdir(parents=True, exist_ok=True)
    source = str(Path(__file__).with_suffix(".cu"))
    subprocess.run(
        ["nvcc", "-O3", "-std=c++17", "-arch=sm_90", "-cudart", "static", "-o", _BINARY, source],
        check=True,
    )
    with (folder / "steps.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("program", "turn", "seconds"))
        for turn in range(TURNS):
            for name in names():
                writer.writerow((name, turn, _output(*_program(name)).strip()))
    for name in names():
        watch = (sys.executable, "-m", "lanescope", "watch", "--kernels", "-q", "--out")
        _output(*watch, str(folder / "watches" / name), "--", *_program(name))


def _program(name: str) -> tuple[str, ...]:
    library, count, size = name.split("-")
    if library == "cuda":
        return _BINARY, count, size
    return sys.executable, __file__, "run", name


def compare(folder: Path) -> None:
    """Print a line for each program."""
    parameters = str(folder / "link-parameters.json")
    with (folder / "steps.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["seconds"]]
    print("program: ms a step (turns); from call to call; predicted with it, error; without, error")
    for name in names():
        steps = sorted(float(row["seconds"]) * 1e3 for row in rows if row["program"] == name)
        if not steps:
            print(f"{name}: not measured")
            continue
        host = _from_call_to_call(folder / "watches" / name, parameters)
        text = f"{name}: {median(steps):.3f} ({steps[0]:.3f} to {steps[-1]:.3f}); "
        if host is None:
            print(f"{text}no time from call to call")
            continue
        both = [_predicted(name, seconds, parameters) for seconds in (host, 0.0)]
        ends = "; ".join(
            f"{one['seconds'] * 1e3:.3f} ({one['low_seconds'] * 1e3:.3f} to "
            f"{one['high_seconds'] * 1e3:.3f}), {one['seconds'] * 1e3 / median(steps) - 1:+.1%}"
            for one in both
        )
        print(f"{text}{host * 1e6:.1f} us; {ends}")


def _from_call_to_call(watch: Path, parameters: str) -> float | None:
    words = ("advise", str(watch), "--json", "--parameters", parameters)
    phases = json.loads(_output(sys.executable, "-m", "lanescope", *words))["phases"]
    times = [phase["measured"]["call_gap_seconds"] for phase in phases]
    return next((one for one in times if one is not None), None)


def _predicted(name: str, host: float, parameters: str) -> dict[str, float]:
    _, count, size = name.split("-")
    options = {
        "--h2d": str(int(count) * int(size)),
        "--arrays-in": count,
        "--streams": "1",
        "--kernel": "0",
        "--host-time": f"{round(host * 1e9)}ns" if host else "0",
        "--parameters": parameters,
    }
    words = [word for pair in options.items() for word in pair]
    command = (sys.executable, "-m", "lanescope", "model", "predict", "--json")
    found = json.loads(_output(*command, *words))
    methods: list[dict[str, float]] = found["ranking"]
    return next(one for one in methods if str(one["method"]).lower() == "pageable")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def main() -> None:
    """Do what the first word says."""
    what, value = sys.argv[1:]
    if what == "run":
        run(value)
    else:
        {"measure": measure, "compare": compare}[what](Path(value))


if __name__ == "__main__":
    main()
