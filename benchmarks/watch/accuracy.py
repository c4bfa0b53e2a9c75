"""How near the payload that counters tell comes to what copies moved.

::

    python benchmarks/watch/accuracy.py --out FILE.csv [--source pm] [--interval 100us]
    python benchmarks/watch/accuracy.py --out FILE.csv --run WATCH    # of a stored watch

Watches ``lanescope.examples vector-add`` with pinned vectors of several sizes. For each direction
``counted`` is the payload by counters from a little before its first copy to a little after its
last one, and ``bytes`` what was copied; ``reverse`` is what counters tell of the other way
while copies of this direction ran, as a share of their bytes.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from lanescope.trace.codes import DirectionCode, FloatArray, IntArray
from lanescope.trace.limits import pcie_links
from lanescope.trace.rectangles import between
from lanescope.trace.run import WatchRun
from lanescope.trace.store import read_watch
from lanescope.trace.timeline import Counters
from lanescope.trace.wire import WireModel, payload_records, settle
from lanescope.trace.wire_fit import model_of

SIZES = ("1MiB", "4MiB", "16MiB", "64MiB", "256MiB", "1GiB")
#: Counters and copies agree in time to some microseconds, and a record may reach over an edge:
#: so much is added before the first copy of a direction and after the last, and at least two
#: records.
MARGIN_NS = 20_000


def watched(size: str, options: list[str], folder: Path) -> WatchRun:
    program = [sys.executable, "-m", "lanescope.examples", "vector-add", "--pinned", "--size", size]
    watch = ["watch", "-q", "--trace", "always", "--out", str(folder)]
    command = [sys.executable, "-m", "lanescope", *watch, *options]
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
        margin = max(MARGIN_NS, 2 * counters.interval_ns)
        for direction, direction in enumerate((DirectionCode.H2D, DirectionCode.D2H)):
            own = copies.rows(copies.direction == direction)
            around = np.array([own.start_ns.min() - margin, own.end_ns.max() + margin])
            told = _payload(counters, model, around, np.sort(own.end_ns))[0]
            edges = np.stack((own.start_ns, own.end_ns), axis=1).ravel()
            inside = _payload(counters, model, edges, np.sort(own.end_ns))[::2].sum(axis=0)
            true = int(own.bytes.sum())
            reverse = settle(inside[0], inside[1])[1 - direction]
            found.append(
                {
                    "source": counters.source,
                    "interval_us": counters.interval_ns / 1e3,
                    "size": size,
                    "direction": direction.label,
                    "bytes": true,
                    "counted": round(float(told[direction])),
                    "error": f"{told[direction] / true - 1:+.5f}",
                    "reverse": f"{reverse / true:.5f}",
                    "model": model.source,
                }
            )
    return found


def _payload(counters: Counters, model: WireModel, edges: IntArray, ends: IntArray) -> FloatArray:
    """Return payload (h2d, d2h) between edges, a row for each pair of neighbours."""
    times, columns = [counters.end_ns[:0]], [np.empty((0, 3))]
    for end_ns, payload in payload_records(counters, model, None, ends):
        times.append(end_ns)
        columns.append(payload)
    end_ns, payload = np.concatenate(times), np.concatenate(columns)
    return between(end_ns, payload[:, :2].T, edges).T


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
