"""What the live view costs: processor time while it shows spools that grow.

::

    python benchmarks/watch/live_cost.py --gpus 1 --hertz 10000 --seconds 20 --out FILE.json

Another process appends records as a sampler does, every 50 ms; the view draws on a terminal of
its own. Counted is the processor time of the view's process without its imports, and its memory.
No GPU is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import multiprocessing
import os
import pty
import resource
import struct
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import numpy as np

from lanescope.cli.live import live_view
from lanescope.machine.files import machine_named
from lanescope.trace.counter_spool import RECORD, counter_header

FLUSH_SECONDS = 0.05
WARM_UP_SECONDS = 2.0


def grow(folder: Path, gpus: int, hertz: int) -> None:
    """Append records of a busy link until this process is ended."""
    interval_ns = 10**9 // hertz
    files = [(folder / f"pm.g{gpu}.bin").open("ab", buffering=0) for gpu in range(gpus)]
    for gpu, file in enumerate(files):
        file.write(counter_header("pm", gpu, interval_ns).encode())
    end_ns, random = time.time_ns(), np.random.default_rng(1)
    while True:
        time.sleep(FLUSH_SECONDS)
        count = (time.time_ns() - end_ns) // interval_ns
        records = np.zeros(count, RECORD)
        records["end_ns"] = end_ns + np.arange(1, count + 1) * interval_ns
        end_ns += count * interval_ns
        for file in files:
            records["rx_bytes"] = random.uniform(0, 55, count) * interval_ns
            records["tx_bytes"] = random.uniform(0, 20, count) * interval_ns
            file.write(records.tobytes())


def measure(folder: Path, seconds: float) -> dict[str, float]:
    """Show the view for some time and return what it took."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 130, 0, 0))
    threading.Thread(target=drain, args=(ours,), daemon=True).start()
    with os.fdopen(its, "w") as terminal, contextlib.redirect_stderr(terminal):
        os.environ["TERM"] = "xterm-256color"
        with live_view(folder, machine_named("h200-x2")):
            time.sleep(WARM_UP_SECONDS)
            before, begin = time.process_time(), time.perf_counter()
            least = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            time.sleep(seconds)
            took, lasted = time.process_time() - before, time.perf_counter() - begin
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - least
    return {"seconds": lasted, "cpu_seconds": took, "core": took / lasted, "grown_kib": grown}


def drain(terminal: int) -> None:
    """Read what is drawn, as a terminal does."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--hertz", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sampler = multiprocessing.get_context("spawn").Process(
            target=grow, args=(Path(folder), asked.gpus, asked.hertz)
        )
        sampler.start()
        try:
            found = measure(Path(folder), asked.seconds)
        finally:
            sampler.terminate()
            sampler.join()
    told = {"gpus": asked.gpus, "hertz": asked.hertz, "argv": sys.argv[1:], **found}
    text = json.dumps(told, indent=1) + "\n"
    print(text, end="")
    if asked.out is not None:
        asked.out.write_text(text)


if __name__ == "__main__":
    main()
