"""Which part of sampling slows a loop down: a pause before it, open samplers, or samples.

::

    python benchmarks/watch/sampling_parts.py --out FILE.json [--loop wide-pair] [--gpus 2]
        [--window 0.6] [--seconds 150]

A process runs a loop of loops.py in windows. Every second window is a plain one; those between have
a case, in random order: ``plain`` again, ``pause`` (the GPUs are idle before the window for as long
as it takes to open the samplers), ``opened`` (samplers are open, but do not sample), ``sampled``.

Prints, for each case, how much slower the window's median iteration is than that of the plain
windows before and after it, in percent: median, mean and its standard error; and how much higher
the GPUs' clock is. And for all plain windows the GPUs' mean clock in MHz, and whether a power limit
held them back. FILE has all windows.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
from alternating import Worker, opened, pause, sampling, starting_seconds

INTERVAL_NS = 100_000
#: Seconds between two readings of the clocks.
CLOCK_PERIOD = 0.03


class Clocks:
    """Reads clocks and reasons of all GPUs while a window runs."""

    def __init__(self, gpus: int) -> None:
        self._gpus = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(gpus)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self.mhz: list[int] = []
        self.power_limited = False

    def _read(self) -> None:
        limit = pynvml.nvmlClocksThrottleReasonSwPowerCap
        while not self._ended.wait(CLOCK_PERIOD):
            for gpu in self._gpus:
                self.mhz.append(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM))
                reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
                self.power_limited |= bool(reasons & limit)

    def __enter__(self) -> Clocks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def window(worker: Worker, loop: str, gpus: int) -> dict[str, Any]:
    """Run a window: the median iteration in seconds, clock in MHz, and whether power limits."""
    with Clocks(gpus) as clocks:
        median_s = worker.run(loop)[0]
    mhz = statistics.mean(clocks.mhz)
    return {"iteration_s": median_s, "mhz": mhz, "power_limited": clocks.power_limited}


def changes(windows: list[dict[str, Any]], case: str, what: str) -> list[float]:
    """Return how far each window of a case is above its two neighbours, in percent."""
    return [
        (during[what] / statistics.mean([a[what], b[what]]) - 1) * 100
        for a, during, b in zip(windows, windows[1:], windows[2:], strict=False)
        if during["case"] == case
    ]


def report(windows: list[dict[str, Any]], cases: list[str]) -> None:
    between = windows[::2]
    limited = sum(one["power_limited"] for one in between)
    mhz = statistics.mean(one["mhz"] for one in between)
    print(f"between: {len(between)} windows, {limited} limited by power, {mhz:.0f} MHz")
    for case in cases:
        percent = changes(windows, case, "iteration_s")
        error = statistics.stdev(percent) / len(percent) ** 0.5
        middle, mean = statistics.median(percent), statistics.mean(percent)
        clock = statistics.mean(changes(windows, case, "mhz"))
        print(
            f"{case}: {middle:+.2f} %, mean {mean:+.2f} +- {error:.2f}, {len(percent)} windows; "
            f"clock {clock:+.2f} %"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loop", default="wide-pair")
    parser.add_argument("--gpus", type=int, default=2, help="how many to sample")
    parser.add_argument("--window", type=float, default=0.6, help="seconds")
    parser.add_argument("--seconds", type=float, default=150, help="of all windows")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    pynvml.nvmlInit()
    sampled = partial(sampling, arguments.gpus, INTERVAL_NS)
    cases: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "plain": partial(pause, 0),
        "pause": partial(pause, starting_seconds(sampled)),
        "opened": partial(opened, arguments.gpus, INTERVAL_NS),
        "sampled": sampled,
    }
    worker = Worker([], arguments.window)
    worker.run(arguments.loop)
    run = partial(window, worker, arguments.loop, arguments.gpus)
    windows = [{"case": "between", **run()}]
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        for case in random.sample(list(cases), len(cases)):
            with cases[case]():
                windows.append({"case": case, **run()})
            windows.append({"case": "between", **run()})
        arguments.out.write_text(json.dumps(windows, indent=1) + "\n")
    worker.close()
    report(windows, list(cases))


if __name__ == "__main__":
    main()
