"""How far predictions are off on other machines and days than the fit's, by what they are of.

``python benchmarks/model/across_machines.py rounds RUN`` prints the medians of all rounds of a fit
as CSV; ``train`` compares the fits of TRAINED with one another's rounds and workloads and prints
src/lanescope/prediction/spread.json; ``test`` prints for TESTED, whose rounds and workloads are in
neither, how many times lie within what was predicted of them; ``test e f`` for these alone.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from workloads import workload_of

from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.points import Kind, Point, pattern_of
from lanescope.prediction.predictor import error_band
from lanescope.prediction.replay import Replay, replay
from lanescope.prediction.samples import read_measured
from lanescope.prediction.seconds import transfer_seconds
from lanescope.prediction.spread import copy_bytes, regime_of
from lanescope.prediction.stored import named_parameters
from lanescope.prediction.workload import MAPPED, Method, Workload

MACHINES = Path(__file__).parents[1] / "results" / "h200-x1" / "machines"
#: Folders of `MACHINES`; h200 is that of an earlier day, f an H100, e one of four H200s.
TRAINED, TESTED = ("h200", "a", "b"), ("c", "d", "e", "f")
#: Its copies of pageable memory are of memory that no cache holds; the earlier ones' are not.
PAGEABLE = "d"
#: Upper ends of the sizes of a copy.
SIZES: dict[str, tuple[int | None, ...]] = {
    "single": (16 << 10, 256 << 10, 8 << 20, None),
    "many": (16 << 10, 256 << 10, 8 << 20, None),
    "pageable": (1 << 20, 16 << 20, None),
}
#: Kernels of the workloads that read each byte of mapped memory once, in whole lines.
WHOLE_LINES = ("spmv", "decode", "option-prices", "batched-matmul", "prefix-sum")


@dataclass(frozen=True)
class Ratio:
    """A measured time as a share of the predicted one."""

    regime: str
    most_bytes: int | None
    share: float
    covered: bool
    of: str


def main() -> None:
    """Do what the first argument says."""
    match sys.argv[1:]:
        case ["rounds", run]:
            print_rounds(Path(run))
        case ["train"]:
            print(json.dumps(trained(), indent=1))
        case ["test", *machines]:
            print_test(machines or TESTED)
        case _:
            sys.exit(__doc__)


def print_rounds(run: Path) -> None:
    """Print kind, bytes, streams and the median of each round."""
    out = csv.writer(sys.stdout)
    out.writerow(["kind", "h2d_bytes", "d2h_bytes", "streams", "round", "seconds"])
    for one in read_measured(run / "transfers.parquet"):
        point, seconds = one.point, float(np.median(one.seconds))
        if point.kind in (Kind.COPIES, Kind.DUPLEX, Kind.PAGEABLE, Kind.FRESH):
            sizes = [point.h2d_bytes, point.d2h_bytes, point.streams]
            out.writerow([str(point.kind), *sizes, one.round, f"{seconds:.6g}"])


def trained() -> list[dict[str, object]]:
    """Return the shares by regime and size: 2.5 and 97.5 % of rounds or workloads, the wider."""
    found: dict[tuple[str, int | None], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in ratios([(fit, machine) for machine in TRAINED for fit in (*TRAINED, PAGEABLE)]):
        found[one.regime, one.most_bytes][one.of].append(one.share)
    table = []
    for (regime, most), by_source in sorted(found.items(), key=lambda item: order(*item[0])):
        ends = [np.percentile(shares, [2.5, 97.5]) for shares in by_source.values()]
        table.append(
            {
                "regime": regime,
                "most_bytes": most,
                "low": round(float(min(end[0] for end in ends)), 3),
                "high": round(float(max(end[1] for end in ends)), 3),
                "count": sum(map(len, by_source.values())),
            }
        )
    return table


def print_test(machines: Sequence[str]) -> None:
    """Print the coverage by regime and size, of rounds and of workloads of machines."""
    fits = (*TRAINED, *TESTED)
    covered: dict[tuple[str, int | None, str], list[Ratio]] = defaultdict(list)
    for one in ratios([(fit, machine) for machine in machines for fit in fits]):
        covered[one.regime, one.most_bytes, one.of].append(one)
    print("regime, up to bytes, of: times, median share, within the interval")
    for key in sorted(covered, key=lambda k: (*order(k[0], k[1]), k[2])):
        those = covered[key]
        share = sum(one.covered for one in those) / len(those)
        middle = median(one.share for one in those)
        print(f"{key[0]}, {key[1] or 'any'}, {key[2]}: {len(those)}, {middle:.3f}, {share:.1%}")


def order(regime: str, most: int | None) -> tuple[str, float]:
    """Return what sorts regimes, and their sizes."""
    return regime, float("inf") if most is None else most


def ratios(pairs: list[tuple[str, str]]) -> Iterator[Ratio]:
    """Compare fits with what other machines measured."""
    for fit, machine in pairs:
        if fit == machine:
            continue
        name = str(MACHINES / fit / "link-parameters.json")
        known = named_parameters(name)
        if (MACHINES / machine / "times.json").is_file():
            yield from of_workloads(known, machine, fit)
        if (MACHINES / machine / "rounds.csv").is_file():
            yield from of_rounds(known, machine, fit)


def of_rounds(known: LinkParameters, machine: str, fit: str) -> Iterator[Ratio]:
    """Compare a fit with the rounds of another machine's."""
    with (MACHINES / machine / "rounds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    times: dict[Point, float | None] = {}
    for row in rows:
        kind = Kind(row["kind"])
        point = Point(kind, int(row["h2d_bytes"]), int(row["d2h_bytes"]), int(row["streams"]))
        if kind in (Kind.PAGEABLE, Kind.FRESH) or fit == PAGEABLE:
            continue  # only one fit's are of memory that no cache holds
        if point not in times:
            times[point] = predicted(known, point)
        if times[point] is not None:
            yield ratio(known, *as_workload(point), float(row["seconds"]), times[point], "rounds")


def predicted(known: LinkParameters, point: Point) -> float | None:
    """Return what the parameters tell of a point; None for what they do not know."""
    match point.kind:
        case Kind.COPIES:
            cost = known.copies(point.direction)
            return transfer_seconds(cost, point.bytes, point.streams).value
        case Kind.DUPLEX if point.streams > 1:
            return replay(pattern_of(point), known).seconds
    return None


def as_workload(point: Point) -> tuple[Workload, Method, int]:
    """Return a point as a workload, so that it has a regime."""
    return Workload(point.h2d_bytes, point.d2h_bytes, 0.0), Method.STREAMS, point.streams


def of_workloads(known: LinkParameters, machine: str, fit: str) -> Iterator[Ratio]:
    """Compare a fit with the workloads of another machine."""
    times = json.loads((MACHINES / machine / "times.json").read_text())
    for case in times["cases"]:
        work = workload_of(case)
        for run in case["runs"]:
            method, streams = Method(run["method"]), run["streams"]
            if (method is Method.PAGEABLE) != (fit == PAGEABLE):
                continue
            seconds = median(run["seconds"])
            found = Replay().predict(work, method, streams, known).seconds
            for of in variants(work, method, case["workload"]):
                yield ratio(known, of, method, streams, seconds, found.value, "workloads")


def variants(work: Workload, method: Method, name: str) -> list[Workload]:
    """Return a workload as one of which nobody said how its kernel reads, and as one of which."""
    if method not in MAPPED or name not in WHOLE_LINES:
        return [work]
    return [work, replace(work, mapped_assumed=False)]


def ratio(
    known: LinkParameters,
    work: Workload,
    method: Method,
    streams: int,
    seconds: float,
    expected: float | None,
    source: str,
) -> Ratio:
    """Return a measured time as a share of its prediction, with its regime."""
    regime = regime_of(work, method, streams)
    size = copy_bytes(work, method, streams)
    ends = SIZES.get(regime, (None,))
    most = next(end for end in ends if end is None or size <= end)
    down, up = error_band(known, work, method, streams)
    share = seconds / (expected or seconds)
    return Ratio(regime, most, share, down <= share <= up, source)


if __name__ == "__main__":
    main()
