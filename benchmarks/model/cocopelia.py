"""Predicts CoCoPeLia's published runs of daxpy, and compares the errors with its own.

``python benchmarks/model/cocopelia.py GIT_DIR`` reads the logs of
github.com/p-anastas/CoCopeLia_gemm (Anastasiadis et al., ISPASS 2021) from a clone, of which
nothing is copied. Its transfer models and its times of the kernel alone are the parameters; x and y
of 8 Mi elements and more lie in host memory and go to the GPU in tiles, and y comes back. Printed
are the mean absolute errors, and the furthest, of CoCoPeLia's model, of van Werkhoven's as
CoCoPeLia has it, and of the replay.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lanescope.prediction.graphs import Task, TaskGraph, TaskKind
from lanescope.prediction.parameters import CopyCost, Duplex, LinkParameters, Origin
from lanescope.prediction.replay import replay
from lanescope.units.estimate import Estimate

TESTBEDS = ("testbed-II_Tesla-V100", "testbed-I_Tesla-K40")
RESULTS = "Data_manipulation/Results"
KERNELS = "cublasDaxpy_dev-0_min-1048576_max-268435456_step-1048576_iter-100.log"
LEAST_ELEMENTS, DOUBLE = 8 << 20, 8
#: More tiles than the replay takes in a second.
MOST_TILES = 512
LEAST_KERNEL = 5e-6


@dataclass(frozen=True)
class Daxpy:
    """A measured run, and what was published of it; seconds."""

    elements: int
    tile: int
    measured: float
    cocopelia: float
    werkhoven: float


def main() -> None:
    """Print the errors for each machine."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("machine: runs; mean absolute error and furthest of CoCoPeLia, Werkhoven, the replay")
    for testbed in TESTBEDS:
        known, kernel = parameters_of(testbed), kernel_of(testbed)
        runs = list(runs_of(testbed))
        predicted = [seconds_of(run, known, kernel) for run in runs]
        print(
            f"{testbed}: {len(runs)};",
            "; ".join(
                errors_text(np.array(times), np.array([run.measured for run in runs]))
                for times in (
                    [run.cocopelia for run in runs],
                    [run.werkhoven for run in runs],
                    predicted,
                )
            ),
        )


def show(path: str) -> list[str]:
    """Return the lines of a file of the clone."""
    done = subprocess.run(
        ["git", "-C", sys.argv[1], "show", f"HEAD:{path}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def parameters_of(testbed: str) -> LinkParameters:
    """Return its transfer models as link parameters: latency, seconds a byte, slowdown."""
    costs, slowed = [], []
    for ends in ("-1_0", "0_-1"):
        path = f"{RESULTS}/{testbed}/Models/transfer_model_{ends}.log"
        # the file of 0 from -1 is that of copies to the GPU
        latency, per_byte, slowdown = map(float, show(path)[:3])
        exactly = Estimate.exactly
        costs.append(CopyCost(exactly(latency), exactly(per_byte), exactly(latency)))
        slowed.append(exactly(per_byte * slowdown))
    d2h, h2d = costs
    return LinkParameters(
        testbed, testbed, "PCIe", Origin.PUBLISHED, "CoCoPeLia's logs", 2, False, h2d, d2h,
        duplex=Duplex(slowed[1], slowed[0]),
    )  # fmt: skip


def kernel_of(testbed: str) -> np.ndarray:
    """Return elements and seconds of the kernel alone, of shape (sizes, 2)."""
    lines = show(f"BenchOutputs/{testbed}/{KERNELS}")
    rows = [line.split(",")[:2] for line in lines if line.count(",") >= 2]
    return np.array(rows, np.float64)


def runs_of(testbed: str) -> Iterator[Daxpy]:
    """Return the runs that have a time and both predictions."""
    folder = f"{RESULTS}/{testbed}/validation"
    published = {}
    for line in show(f"{folder}/Daxpy_CoCopelia_predict_avg_0_vfinal.log"):
        n, tile, x, y, werkhoven, cocopelia = line.split(",")
        published[int(n), int(tile), int(x), int(y)] = float(cocopelia), float(werkhoven)
    for line in show(f"{folder}/CoCopeLia_Daxpy_0_vfinal.log"):
        n, tile, x, y, *times = line.split(",")
        key = int(n), int(tile), int(x), int(y)
        if key[0] < LEAST_ELEMENTS or key[2:] != (1, 1) or key not in published:
            continue
        if key[0] // key[1] <= MOST_TILES:
            yield Daxpy(key[0], key[1], float(times[-2]), *published[key])


def seconds_of(run: Daxpy, known: LinkParameters, kernel: np.ndarray) -> float:
    """Return the replay's time: tiles of x and y to the GPU, the kernel, y back.

    The last tile is what is left.
    """
    slope, first = np.polyfit(kernel[:, 0], kernel[:, 1], 1)
    tasks = []
    for stream, begin in enumerate(range(0, run.elements, run.tile)):
        count = min(run.tile, run.elements - begin)
        size = DOUBLE * count
        alone = max(float(first + slope * count), LEAST_KERNEL)
        tasks += [Task(TaskKind.H2D, stream, size), Task(TaskKind.H2D, stream, size)]
        tasks.append(Task(TaskKind.KERNEL, stream, seconds=slope * count, alone=alone))
        tasks.append(Task(TaskKind.D2H, stream, size))
    return replay(TaskGraph(tuple(tasks)), known).seconds


def errors_text(predicted: np.ndarray, measured: np.ndarray) -> str:
    """Return the mean absolute error and the one furthest off."""
    errors = predicted / measured - 1
    return f"{np.abs(errors).mean():.1%}, {errors[np.abs(errors).argmax()]:+.1%}"


if __name__ == "__main__":
    main()
