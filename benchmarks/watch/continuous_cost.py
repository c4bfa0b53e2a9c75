"""What a watch without an end costs: processor time, memory and disk.

::

    python benchmarks/watch/continuous_cost.py --gpus 8 --hertz 1000 --seconds 200 --out FILE.json

Another process appends records of a busy link as samplers do; this one makes segments
of them, keeps the last minute, and serves metrics, which are fetched every 5 s. Counted is its
processor time without its imports; a sampler's own is not in it, as no GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from live_cost import grow

from lanescope.machine import Gpu, Link, Machine, NumaNode, PcieLink
from lanescope.trace.segments import read_last, segments_in
from lanescope.watching.continuous import ContinuousWatch, metrics_of, serving
from lanescope.watching.sources import Availability, SourceReport

WARM_UP_SECONDS = 65.0
KEEP_NS = 60 * 10**9


class Grown:
    """Lets another process append what samplers do."""

    name = "pm"

    def __init__(self, spool: Path, gpus: int, hertz: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=grow, args=(spool, gpus, hertz))

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        return Availability(True)

    def prepare(self) -> None:
        pass

    def start(self) -> None:
        self._process.start()

    def stop(self) -> SourceReport:
        self._process.terminate()
        self._process.join()
        return SourceReport()

    def environment(self) -> Mapping[str, str]:
        return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--hertz", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    gpus = tuple(Gpu(i, "GPU", node=0) for i in range(arguments.gpus))
    links = tuple(Link.of_pcie("h0", gpu.id, PcieLink(5, 16, 5, 16)) for gpu in gpus)
    machine = Machine("made-up", nodes=(NumaNode(0, ((0,),)),), gpus=gpus, links=links)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "watch"
        wanted = ContinuousWatch(
            folder,
            KEEP_NS,
            1 << 40,
            lambda: machine,
            lambda _, spool: [Grown(spool, arguments.gpus, arguments.hertz)],
            "continuous_cost.py",
        )
        writer = wanted.writer()

        def measure(port: int) -> None:
            time.sleep(WARM_UP_SECONDS)
            before, begun = time.process_time(), time.perf_counter()
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            while time.perf_counter() < begun + arguments.seconds:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read()
                time.sleep(5)
            lasted = time.perf_counter() - begun
            found["core"] = (time.process_time() - before) / lasted
            found["grown_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
            found["segments"] = len(segments_in(folder))
            found["stored_bytes"] = writer.stored_bytes
            spools = list((folder / "session/spool").glob("*.bin"))
            found["spool_disk_bytes"] = sum(path.stat().st_blocks * 512 for path in spools)
            os.kill(os.getpid(), signal.SIGTERM)

        with serving(("127.0.0.1", 0), lambda: metrics_of(writer)) as port:
            threading.Thread(target=measure, args=(port,)).start()
            wanted.run(writer, lambda: None)
        counters = read_last(folder, 50 * 10**9).counters
        found["unknown_records"] = sum(int((~one.known[1:]).sum()) for one in counters)
    found |= {"gpus": arguments.gpus, "hertz": arguments.hertz, "seconds": arguments.seconds}
    text = json.dumps({**found, "argv": sys.argv[1:3]}, indent=1) + "\n"
    print(text, end="")
    if arguments.out is not None:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
