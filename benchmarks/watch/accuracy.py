"""How near the payload that counters tell comes to what copies moved.

::

    python benchmarks/watch/accuracy.py --out FILE.csv [--source pm] [--interval 100us]
    python benchmarks/watch/accuracy.py --out FILE.csv --run WATCH    # of a stored watch

Watches ``lanescope.examples vector-add`` with pinned vectors of several sizes, and compares for
each traced copy the payload by counters, from a little before to a little after the copy, with its
bytes; ``reverse`` is what counters tell of the other way, as a share of the copy's bytes.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from lanescope.watch.codes import Direction
from lanescope.watch.fit import model_of
from lanescope.watch.limits import pcie_links
from lanescope.watch.operations import Operations
from lanescope.watch.rectangles import between
from lanescope.watch.run import WatchRun
from lanescope.watch.store import read_watch

SIZES = ("1MiB", "4MiB", "16MiB", "64MiB", "256MiB", "1GiB")
#: Counters and copies agree in time to some microseconds, and a record may reach over an edge:
#: so much is added before and after a copy, but at most half of the way to the next one.
MARGIN_NS = 300_000


def watched(size: str, options: list[str], folder: Path) -> WatchRun:
    program = [sys.executable, "-m", "lanescope.examples", "vector-add", "--pinned", "--size", size]
    command = [sys.executable, "-m", "lanescope", "watch", "-q", "--out", str(folder), *options]
    done = subprocess.run([*command, "--", *program], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return read_watch(folder)


def rows(run: WatchRun, size: str) -> list[dict[str, object]]:
    found = []
    operations = run.timeline.operations
    copies = operations.rows(operations.is_copy)
    links = pcie_links(run.manifest.machine, 0)
    for counters in run.timeline.counters:
        model = model_of(run.timeline, counters, links[0].pcie if links else None)
        for i in range(len(copies)):
            down = copies.direction[i] == Direction.H2D
            begin, end = _around(copies, i)
            edges = np.array([begin, end], np.int64)
            rx, tx = (
                float(between(counters.end_ns, column, edges)[0])
                for column in (counters.rx_bytes, counters.tx_bytes)
            )
            h2d, d2h = (
                float(x)
                for x in model.payload(
                    rx,
                    tx,
                    seconds=(end - begin) * 1e-9,
                    interval_ns=counters.interval_ns,
                    operations=1,
                )
            )
            told, other = (h2d, d2h) if down else (d2h, h2d)
            true = int(copies.bytes[i])
            found.append(
                {
                    "source": counters.source,
                    "size": size,
                    "direction": "h2d" if down else "d2h",
                    "bytes": true,
                    "counted": round(told),
                    "error": f"{told / true - 1:+.5f}",
                    "reverse": f"{other / true:.5f}",
                    "model": model.source,
                }
            )
    return found


def _around(copies: Operations, i: int) -> tuple[int, int]:
    """Return the time of a copy with its margins."""
    begin, end = int(copies.start_ns[i]), int(copies.end_ns[i])
    before = begin - int(copies.end_ns[i - 1]) if i else 2 * MARGIN_NS
    after = int(copies.start_ns[i + 1]) - end if i + 1 < len(copies) else 2 * MARGIN_NS
    return begin - min(MARGIN_NS, before // 2), end + min(MARGIN_NS, after // 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--source", default="pm")
    parser.add_argument("--interval", default="100us")
    parser.add_argument("--run", type=Path, help="a stored watch to compare instead")
    arguments = parser.parse_args()
    if arguments.run is not None:
        _write(rows(read_watch(arguments.run), "-"), arguments.out)
        return
    options = ["--source", arguments.source, "--source", "trace", "--interval", arguments.interval]
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            table += rows(watched(size, options, Path(folder) / size), size)
    _write(table, arguments.out)


def _write(table: list[dict[str, object]], out: Path) -> None:
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    for row in table:
        print(*row.values())


if __name__ == "__main__":
    main()
