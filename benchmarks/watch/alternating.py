"""What watching costs a loop: watched and unwatched processes take turns, every 100 ms by default.

::

    python benchmarks/watch/alternating.py --out FILE.json [--turns 7] [--restarts 2]
        [--processes 2] [--interval 2us] [--gpus 2] [--loops train launch tiny loader]
        [--window 0.4]

Machines change their speed from second to second by more than watching costs, so that whole
runs cannot be compared. Here a plain process and one that `lanescope watch --source calls` watches
are both there all the time; one runs a loop of loops.py for a window while the other waits, then
the other. Meanwhile this process samples the GPUs' links by `pm` for some windows, and then does
not, after a pause as long as what it takes to begin sampling: GPUs that paused are slower at first.
So there are four cases, each some tenths of a second from the others; ``default`` is a watched
process with `pm`, compared with a plain one without. A turn has all four; after so many turns of
each loop the processes are made anew, as where their memory lies makes a difference. With
``--processes 2`` two processes at a time run the same loop on one GPU.

FILE has, for each loop and turn, the median over windows of the median time of an iteration in
each case, in seconds, and how much slower than a plain one each case is: median and range over
all turns. ``fast`` is the same for the tenth percentile of all iterations.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from lanescope.machine import Machine
from lanescope.machine.discovery import discover
from lanescope.watching.sources.pm import PmSource

#: Windows of each process while `pm` samples, or does not.
WINDOWS = 3
#: Iterations at the beginning of a window, while the other's last ones may still matter.
SKIPPED = 5
CASES = {"plain": "plain", "calls": "calls", "pm": "plain+pm", "default": "calls+pm"}


def serve(processes: int, window: float) -> None:
    """Run what each line of standard input names: a loop, for so many seconds."""
    if processes > 1:
        return lead(processes, window)
    from loops import LOOPS, WARM_UP

    steps: dict[str, Any] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        if name not in steps:
            steps[name] = LOOPS[name]()
            for _ in range(WARM_UP):
                steps[name]()
        step = steps[name]
        times = [time.perf_counter()]
        while times[-1] < times[0] + window:
            step()
            times.append(time.perf_counter())
        taken = [b - a for a, b in pairwise(times)][SKIPPED:] or [times[-1] - times[-2]]
        deciles = statistics.quantiles(taken, n=10) if len(taken) > 1 else taken * 9
        print(json.dumps([statistics.median(taken), deciles[0]]), flush=True)
    return None


def lead(processes: int, window: float) -> None:
    """Let several processes do at the same time what each line names."""
    workers = [Worker([], window) for _ in range(processes)]
    print("ready", flush=True)
    for line in sys.stdin:
        for worker in workers:
            worker.begin(line.strip())
        found = [worker.end() for worker in workers]
        print(json.dumps([statistics.mean(one) for one in zip(*found, strict=True)]), flush=True)
    for worker in workers:
        worker.close()


class Worker:
    """A process that runs loops when it is ordered to."""

    def __init__(self, before: list[str], window: float, processes: int = 1) -> None:
        words = [sys.executable, __file__, "--serve", "--window", str(window)]
        self._process = subprocess.Popen(
            [*before, *words, "--processes", str(processes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._started = False

    def wait(self) -> None:
        """Wait until it has started."""
        if self._out.readline().strip() != "ready":
            sys.exit("a process that runs the loops did not start")

    def begin(self, loop: str) -> None:
        """Begin a window."""
        if not self._started:
            self.wait()
            self._started = True
        self._in.write(loop + "\n")
        self._in.flush()

    def end(self) -> list[float]:
        """Return the median and the tenth percentile of the window's iterations, in seconds."""
        return list(map(float, json.loads(self._out.readline())))

    def run(self, loop: str) -> list[float]:
        """Run a window."""
        self.begin(loop)
        return self.end()

    def close(self) -> None:
        """End it."""
        self._in.close()
        self._process.wait()


@cache
def this_machine() -> Machine:
    return discover()


@contextmanager
def sampling(gpus: int, interval_ns: int) -> Iterator[None]:
    """Sample the links of GPUs as the default of watching does."""
    with opened(gpus, interval_ns) as sources:
        for source in sources:
            source.start()
        yield
        for source in sources:
            source.stop()


@contextmanager
def opened(gpus: int, interval_ns: int) -> Iterator[list[PmSource]]:
    """Keep samplers of GPUs open that do not sample yet."""
    with tempfile.TemporaryDirectory() as folder:
        sources = [
            PmSource(gpu, Path(folder), interval_ns=interval_ns, nvlink=gpus > 1)
            for gpu in this_machine().gpus[:gpus]
        ]
        for source in sources:
            source.prepare()
        yield sources


@contextmanager
def pause(seconds: float) -> Iterator[None]:
    """Let the GPUs be idle for as long as they are before sampling."""
    time.sleep(seconds)
    yield


def starting_seconds(sampled: Callable[[], AbstractContextManager[None]]) -> float:
    """Return how long it takes to begin sampling."""
    begun = time.perf_counter()
    with sampled():
        return time.perf_counter() - begun


#: By case, the median over windows of both times.
Turn = dict[str, list[float]]


def turns_of(arguments: argparse.Namespace, interval_ns: int) -> Iterator[tuple[str, Turn]]:
    """Yield each turn of each loop, by processes that are new."""
    with tempfile.TemporaryDirectory() as folder:
        watch = [sys.executable, "-m", "lanescope", "watch", "-q", "--source", "calls"]
        watched = [*watch, "--out", f"{folder}/run", "--"]
        workers = {
            "plain": Worker([], arguments.window, arguments.processes),
            "calls": Worker(watched, arguments.window, arguments.processes),
        }
        for loop in arguments.loops:
            for worker in workers.values():
                worker.run(loop)
            sampled = partial(sampling, arguments.gpus, interval_ns)
            paused = partial(pause, starting_seconds(sampled))
            for _ in range(arguments.turns):
                cases: dict[str, list[list[float]]] = {case: [] for case in CASES.values()}
                for context, more in ((paused, ""), (sampled, "+pm"), (paused, "")):
                    with context():
                        windows(workers, loop, cases, more)
                medians = {
                    case: [statistics.median(one) for one in zip(*times, strict=True)]
                    for case, times in cases.items()
                }
                yield loop, medians
        for worker in workers.values():
            worker.close()


def windows(
    workers: dict[str, Worker], loop: str, cases: dict[str, list[list[float]]], more: str
) -> None:
    for i in range(WINDOWS):
        for name in list(workers)[:: 1 if i % 2 == 0 else -1]:
            cases[name + more].append(workers[name].run(loop))


def slower(turns: dict[str, list[Turn]], which: int) -> dict[str, Any]:
    """Return how much slower each case is than a plain process, in percent."""
    found: dict[str, Any] = {}
    for loop, all_turns in turns.items():
        for name in ("calls", "pm", "default"):
            percent = [
                (one[CASES[name]][which] / one["plain"][which] - 1) * 100 for one in all_turns
            ]
            found.setdefault(loop, {})[name] = {
                "median": statistics.median(percent),
                "range": [min(percent), max(percent)],
            }
    return found


def store(turns: dict[str, list[Turn]], path: Path | None) -> None:
    """Write the turns so far, so that they are there however this ends."""
    content = {
        "argv": sys.argv[1:],
        "slower_percent": slower(turns, 0),
        "fast_slower_percent": slower(turns, 1),
        "turns": turns,
    }
    if path is not None:
        path.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=1, help="how many to sample")
    parser.add_argument("--interval", default="100us")
    parser.add_argument("--window", type=float, default=0.1, help="seconds")
    parser.add_argument("--loops", nargs="+", default=["train", "launch", "tiny", "loader"])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.processes, arguments.window)
    interval_ns = int(float(arguments.interval.removesuffix("us")) * 1000)
    turns: dict[str, list[Turn]] = {}
    for _ in range(arguments.restarts):
        for loop, turn in turns_of(arguments, interval_ns):
            turns.setdefault(loop, []).append(turn)
            store(turns, arguments.out)
    for loop, cases in slower(turns, 0).items():
        for name, one in cases.items():
            low, high = one["range"]
            print(f"{loop} {name}: {one['median']:+.2f} % ({low:+.2f} to {high:+.2f})")
    return None


if __name__ == "__main__":
    main()
