"""What CUPTI's tracing costs by kind: turned on and off in loops that run.

::

    g++ -O2 -fPIC -shared -I/usr/local/cuda/include -I/usr/local/cuda/extras/CUPTI/include \
        benchmarks/watch/toggled.cpp -o toggled.so -ldl -lpthread
    python benchmarks/watch/toggled.py toggled.so OUT.json

Runs loops of loops.py, and every 300 ms turns kinds of activity on or off in them, so that times
are compared within a second, however fast the machine is at that hour. ``slow`` are the medians of
an iteration while on, in percent above those of the phases before and after; ``never`` is the
median in microseconds before anything was turned on, ``off_med`` that of all phases in which it was
off again.
"""

from __future__ import annotations

import bisect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

#: The loop, what is turned on, and how: see toggled.cpp. With ``finalize`` CUPTI is put away when
#: it is turned off; without it, it stays in the program's launches.
TRIALS = (
    ("launch", "copy"),
    ("launch", "copy,finalize"),
    ("launch", "copy,memset"),
    ("launch", "copy,driver,runtime"),
    ("launch", "callbacks"),
    ("train", "copy"),
    ("train", "copy,driver,runtime"),
    ("train", "memset"),
    ("train", "callbacks"),
    ("tiny", "copy"),
    ("tiny", "callbacks"),
    ("loader", "copy"),
)
SECONDS = 6.0
FIRST_MS, EACH_MS = 2500, 300
#: After a change it takes so long until things go on as before.
SETTLING_NS = 5_000_000

Edge = tuple[int, int, int]


def loop(name: str, out: Path) -> None:
    """Run a loop, and write when each iteration ended."""
    from loops import LOOPS, WARM_UP

    step = LOOPS[name]()
    for _ in range(WARM_UP):
        step()
    times = [time.time_ns()]
    while times[-1] < times[0] + SECONDS * 1e9:
        step()
        times.append(time.time_ns())
    out.write_text(json.dumps(times))


def phases(times: list[int], edges: list[Edge]) -> list[tuple[str, float]]:
    """Return the median of an iteration in microseconds before, and while it was on and off."""
    spans = [("never", times[0], edges[0][0])]
    spans += [
        ("on" if on else "off", end, begin) for (_, end, on), (begin, _, _) in pairwise(edges)
    ]
    found = []
    for state, begin, end in spans:
        own = times[
            bisect.bisect_left(times, begin + SETTLING_NS) : bisect.bisect_right(times, end)
        ]
        if len(own) > 5:
            found.append((state, statistics.median(b - a for a, b in pairwise(own)) * 1e-3))
    return found


def compared(found: list[tuple[str, float]]) -> dict[str, Any]:
    """Return each phase on against the phases off before and after it."""
    slow = []
    for i, (state, median) in enumerate(found):
        around = [m for s, m in found[max(i - 1, 0) : i + 2] if s == "off"]
        if state == "on" and around:
            slow.append(median / statistics.mean(around) * 100 - 100)
    off = [median for state, median in found if state == "off"]
    return {
        "median": statistics.median(slow) if slow else None,
        "slow": slow,
        "never": [median for state, median in found if state == "never"],
        "off_med": statistics.median(off) if off else None,
    }


def trial(library: str, name: str, kinds: str) -> dict[str, Any]:
    """Run one loop with some kinds turned on and off."""
    with tempfile.TemporaryDirectory() as folder:
        log, times = Path(folder) / "log", Path(folder) / "times.json"
        environment = {
            "CUDA_INJECTION64_PATH": str(Path(library).absolute()),
            "TOGGLED_KINDS": kinds,
            "TOGGLED_LOG": str(log),
            "TOGGLED_FIRST_MS": str(FIRST_MS),
            "TOGGLED_EACH_MS": str(EACH_MS),
        }
        command = [sys.executable, __file__, "--loop", name, str(times)]
        subprocess.run(command, env={**os.environ, **environment}, check=True)
        ended: list[int] = json.loads(times.read_text())
        edges = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    after = [edge for edge in edges if edge[0] > ended[0]]
    return {"loop": name, "kinds": kinds, **compared(phases(ended, after))}  # type: ignore[arg-type]


def main() -> None:
    if sys.argv[1:2] == ["--loop"]:
        return loop(sys.argv[2], Path(sys.argv[3]))
    library, out = sys.argv[1:]
    found = []
    for name, kinds in TRIALS:
        found.append(trial(library, name, kinds))
        Path(out).write_text(json.dumps(found, indent=1) + "\n")
        print(name, kinds, found[-1]["median"], found[-1]["slow"])
    return None


if __name__ == "__main__":
    main()
