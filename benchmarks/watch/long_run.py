"""What the end of a long watch takes: memory and time until its page is written.

::

    python benchmarks/watch/long_run.py --gpus 8 --records 36000000 --operations 0 --out FILE.json

Spools are made up: counters of 10 kHz, or of `--hertz`, with bursts, and traces of a process for
each GPU, whose copies fall together with the bursts. Then a process of its own makes columns of
them, the summary, findings, JSON and the page, and another does what ``report`` does with the
stored run. Reported are the seconds of each step, all of them together (`end_seconds`; modules are
loaded before, as those of a watch are while its program runs), and the most memory that was ever
resident, beside what was resident when all modules were imported. No GPU is needed; the disk has
to hold 16 bytes a record and 120 bytes an operation.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

#: Of the records; `main` sets them.
HERTZ, INTERVAL_NS = 10_000, 100_000
START_NS = 1_795_281_229_914_609_055
PIECE = 1 << 20
#: A copy of 4 MiB takes 80 µs on a link of 52 GB/s; shorter ones have fewer bytes.
BYTES_PER_NS = 52
CONTEXT, STREAM = 1, 7


def make(folder: Path, gpus: int, records: int, operations: int) -> None:
    """Write the spools of a watch that was to go on."""
    from lanescope.trace.counter_spool import counter_header

    spool, each = folder_of(folder, gpus).spool, records // gpus
    for gpu in range(gpus):
        with (spool / f"pm.g{gpu}.bin").open("wb") as file:
            file.write(counter_header("pm", gpu, INTERVAL_NS).encode())
            for begin in range(0, each, PIECE):
                file.write(counter_records(begin, min(begin + PIECE, each)).tobytes())
        if operations:
            make_trace(spool, gpu, operations // gpus, each * INTERVAL_NS)


def counter_records(begin: int, end: int) -> np.ndarray:
    """Return records of a link that is busy half of each second."""
    from lanescope.trace.counter_spool import RECORD

    numbers = np.arange(begin, end)
    random = np.random.default_rng(begin)
    records = np.zeros(end - begin, RECORD)
    records["end_ns"] = START_NS + (numbers + 1) * INTERVAL_NS
    busy = numbers % HERTZ < HERTZ // 2
    most = INTERVAL_NS * BYTES_PER_NS
    records["rx_bytes"] = np.where(busy, random.integers(most // 2, most, end - begin), 500)
    records["tx_bytes"] = records["rx_bytes"] // 16 + 450
    lost = random.random(end - begin) < 1e-5
    records["rx_bytes"][lost] = records["tx_bytes"][lost] = 0xFFFFFFFF
    return records


def make_trace(spool: Path, gpu: int, count: int, lasts_ns: int) -> None:
    """Write copies both ways, one in five of them a kernel, at random times and overlapping."""
    from lanescope.trace.spool_records import CALLS, COUNTS, HEAD, OPERATIONS, RecordKind

    every_ns = max(lasts_ns // count, 2000)
    header = {"source": "trace", "version": 1, "pid": 1000 + gpu, "command": ["./app", str(gpu)]}
    with (spool / f"trace.{1000 + gpu}.bin").open("wb") as file:
        file.write((json.dumps({**header, "start_ns": START_NS}) + "\n").encode())
        for identity, name in ((1, b"kernel__"), (2, b"cudaMemc")):
            file.write(np.array([(RecordKind.STRING, 0, 24)], HEAD).tobytes())
            file.write(np.array([identity, len(name)], np.uint32).tobytes() + name)
        for begin in range(0, count, PIECE // 8):
            numbers = np.arange(begin, min(begin + PIECE // 8, count))
            random = np.random.default_rng((gpu, begin))
            rows, calls = np.zeros(numbers.size, OPERATIONS), np.zeros(numbers.size, CALLS)
            kernel = numbers % 5 == 4
            rows["head"]["kind"], rows["head"]["size"] = RecordKind.OPERATION, OPERATIONS.itemsize
            upwards = numbers % 5 == 3
            lasted = random.integers(every_ns // 5, 2 * every_ns, numbers.size)
            waited = random.integers(1000, 1000 + 3 * every_ns, numbers.size)
            rows["start_ns"] = START_NS + numbers * every_ns + waited  # not in order
            large = numbers % 64 == 1
            lasted[large] = (4 << 20) // BYTES_PER_NS
            size = np.where(large, 4 << 20, lasted * BYTES_PER_NS // 32)
            rows["end_ns"] = rows["start_ns"] + lasted
            rows["bytes"] = np.where(kernel, 0, size)
            rows["what"] = np.where(kernel, 2, 0)
            rows["source_kind"], rows["destination_kind"] = 2 - (numbers % 7 == 1), 3
            rows["source_kind"][upwards], rows["destination_kind"][upwards] = 3, 2
            rows["asynchronous"] = numbers % 3 > 0
            rows["source_device"] = np.where(upwards, gpu, -1)
            rows["destination_device"] = np.where(upwards, -1, gpu)
            rows["device"] = gpu
            rows["context"], rows["stream"] = CONTEXT, STREAM + numbers % 3
            rows["correlation"] = calls["correlation"] = numbers + 1
            rows["name"] = np.where(kernel, 1, 0)
            calls["head"]["kind"], calls["head"]["size"] = RecordKind.CALL, CALLS.itemsize
            calls["start_ns"] = START_NS + numbers * every_ns + 100
            calls["end_ns"] = calls["start_ns"] + random.integers(300, 900, numbers.size)
            calls["thread"], calls["name"] = 4000 + numbers % 2, 2
            file.write(calls.tobytes() + rows.tobytes())  # in turns, as buffers come
        end = np.array([((RecordKind.END, 0, COUNTS.itemsize), START_NS + lasts_ns, 0)], COUNTS)
        file.write(end.tobytes())


def folder_of(folder: Path, gpus: int):
    from lanescope.trace.watch_folder import WatchFolder

    return WatchFolder(folder, manifest(gpus, None))


def manifest(gpus: int, end_ns: int | None):
    from lanescope._version import __version__
    from lanescope.machine import Gpu, Machine, NumaNode
    from lanescope.trace.run import WatchManifest

    machine = Machine(
        name=f"made up, {gpus} GPUs",
        nodes=(NumaNode(0, cores=((0,),)),),
        gpus=tuple(Gpu(i, "made up", uuid=f"GPU-{i}", node=0) for i in range(gpus)),
    )
    return WatchManifest(
        "long_run.py", ("./app",), "2026-11-21T17:13:49+00:00", __version__, machine, START_NS,
        end_ns, 0 if end_ns else None,
    )  # fmt: skip


def finish(folder: Path, gpus: int, records: int) -> None:
    """Print what finishing takes."""
    from lanescope.findings.trace import evaluate_watch
    from lanescope.store.folder import RunFolder
    from lanescope.studies.watch_report import summary_json, watch_page_html
    from lanescope.trace.watch_folder import WatchFolder

    import_all()
    before, took, clock = peak_mib(), {}, time.perf_counter()

    def step(name: str) -> None:
        nonlocal clock
        took[name] = [round(time.perf_counter() - clock, 2), round(peak_mib() - before, 1)]
        clock = time.perf_counter()

    if (folder / "spool").is_dir():
        held = WatchFolder.__new__(WatchFolder)
        held.folder, held._opened, held._limits = folder, RunFolder(folder, "watch"), NoLock()
        end_ns = START_NS + records // gpus * INTERVAL_NS
        run = held.finish(manifest(gpus, end_ns))
        step("columns")
    else:
        from lanescope.trace.store import read_watch

        run = read_watch(folder)
        step("read")
    told = evaluate_watch(run, runs=folder / "none")
    step("summary and findings")
    json.dumps(summary_json(told.summary, told.findings))
    page = folder / "report.html"
    page.write_text(watch_page_html(run, told))
    step("JSON and page")
    found = {"mib_imported": round(before, 1), "mib_grown": round(peak_mib() - before, 1)}
    found |= {"user_seconds": round(os.times().user, 2), "page_bytes": page.stat().st_size}
    found |= {"end_seconds": round(sum(seconds for seconds, _ in took.values()), 2)}
    print(json.dumps(found | {"steps_seconds_mib": took}))


def import_all() -> None:
    """Load what a watch loads while its program runs."""
    from lanescope.cli.watch import _MAKES_THE_SUMMARY
    from lanescope.watching.requests import _NEEDED_LATER

    for name in (*_NEEDED_LATER, *_MAKES_THE_SUMMARY):
        importlib.import_module(name)


class NoLock:
    def release(self) -> None: ...


def peak_mib() -> float:
    """Return the most that was resident; what getrusage says begins with who started us."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def main() -> None:
    global HERTZ, INTERVAL_NS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--records", type=int, default=8 * 600_000)
    parser.add_argument("--operations", type=int, default=0)
    parser.add_argument("--hertz", type=int, default=HERTZ, help="Records of a GPU in a second.")
    parser.add_argument("--scratch", type=Path, help="Where the run goes; it is removed.")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=("make", "finish"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    HERTZ, INTERVAL_NS = asked.hertz, 10**9 // asked.hertz
    if asked.only == "make":
        return make(asked.scratch, asked.gpus, asked.records, asked.operations)
    if asked.only == "finish":
        return finish(asked.scratch, asked.gpus, asked.records)
    told = {"gpus": asked.gpus, "records": asked.records, "operations": asked.operations}
    told |= {"hertz": asked.hertz}
    with tempfile.TemporaryDirectory(dir=asked.scratch) as scratch:
        folder = Path(scratch) / "run"
        for name, only in (("made", "make"), ("finish", "finish"), ("report", "finish")):
            counts = f"--gpus {asked.gpus} --records {asked.records}"
            counts += f" --operations {asked.operations} --hertz {asked.hertz} --only {only}"
            command = [sys.executable, __file__, *counts.split(), "--scratch", str(folder)]
            begin = time.perf_counter()
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            seconds = round(time.perf_counter() - begin, 2)
            if name != "made":
                told[name] = {"wall_seconds": seconds, **json.loads(done.stdout)}
        sizes = {p.name: p.stat().st_size for p in sorted(folder.glob("*.parquet"))}
    text = json.dumps(told | {"bytes": sizes}, indent=1) + "\n"
    print(text, end="")
    if asked.out is not None:
        asked.out.write_text(text)


if __name__ == "__main__":
    main()
