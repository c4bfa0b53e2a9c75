"""How far predictions are off on other machines and days than the fit's, by what they are of.

``python benchmarks/model/across_machines.py rounds RUN`` prints the medians of all rounds of a fit
as CSV; ``train`` compares the fits of all machines with one another's rounds and workloads and
prints what src/lanescope/prediction/spread.json is to be; ``test`` leaves out one machine after the
other, makes the intervals from the others alone, and prints how many of its times lie within those
of the others' fits.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from workloads import workload_of

from lanescope.prediction.costs import transfer_seconds
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.points import Point, PointKind, pattern_of, read_measured
from lanescope.prediction.predictor import MAPPED, Method, Spread, Workload, copy_bytes, regime_of
from lanescope.prediction.replay import Replay, replay
from lanescope.prediction.stored_parameters import named_parameters

MACHINES = Path(__file__).parents[1] / "results" / "h200-x1" / "machines"
#: Folders of `MACHINES`; h200 is that of an earlier day, e one of four H200s, f to i are H100s.
NAMES = ("h200", "a", "b", "c", "d", "e", "f", "g", "h", "i")
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
    """A measured time as a share of the predicted one, and what it is of.

    Attributes
    ----------
    least
        The share that the fit says it may be off, at least.
    """

    fit: str
    machine: str
    regime: str
    most_bytes: int | None
    share: float
    least: float
    of: str


def main() -> None:
    """Do what the first argument says."""
    match sys.argv[1:]:
        case ["rounds", run]:
            print_rounds(Path(run))
        case ["train"]:
            rows = [asdict(spread) for spread in trained(all_ratios()).values()]
            print(json.dumps(rows, indent=1))
        case ["test"]:
            print_test()
        case _:
            sys.exit(__doc__)


def print_rounds(run: Path) -> None:
    """Print kind, bytes, streams and the median of each round."""
    out = csv.writer(sys.stdout)
    out.writerow(["kind", "h2d_bytes", "d2h_bytes", "streams", "round", "seconds"])
    for one in read_measured(run / "transfers.parquet"):
        point, seconds = one.point, float(np.median(one.seconds))
        if point.kind in (PointKind.COPIES, PointKind.DUPLEX, PointKind.PAGEABLE, PointKind.FRESH):
            sizes = [point.h2d_bytes, point.d2h_bytes, point.streams]
            out.writerow([str(point.kind), *sizes, one.round, f"{seconds:.6g}"])


def trained(ratios: Iterable[Ratio]) -> dict[tuple[str, int | None], Spread]:
    """Return where 95 % of the shares lie, of rounds or workloads, whichever is wider."""
    found: dict[tuple[str, int | None], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in ratios:
        found[one.regime, one.most_bytes][one.of].append(one.share)
    table = {}
    for key, by_source in sorted(found.items(), key=lambda item: order(*item[0])):
        ends = [np.percentile(shares, [2.5, 97.5]) for shares in by_source.values()]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        count = sum(map(len, by_source.values()))
        table[key] = Spread(*key, round(float(low), 3), round(float(high), 3), count)
    return table


def print_test() -> None:
    """Print the coverage of each machine by regime and size, of rounds and of workloads."""
    print("machine, regime, up to bytes, of: times, median share, within the interval")
    for key, (those, share) in left_out(list(all_ratios())).items():
        machine, regime, most, of = key
        middle = median(one.share for one in those)
        what = f"{machine}, {regime}, {most or 'any'}, {of}"
        print(f"{what}: {len(those)}, {middle:.3f}, {share:.1%}")


Key = tuple[str, str, int | None, str]


def left_out(known: list[Ratio]) -> dict[Key, tuple[list[Ratio], float]]:
    """Return the times of each machine and what share the others' intervals hold.

    By machine, regime, size and what the times are of.
    """
    found: dict[Key, tuple[list[Ratio], float]] = {}
    for machine in NAMES:
        table = trained(one for one in known if machine not in (one.fit, one.machine))
        groups: dict[Key, list[Ratio]] = defaultdict(list)
        for one in known:
            if one.machine == machine and (one.regime, one.most_bytes) in table:
                groups[machine, one.regime, one.most_bytes, one.of].append(one)
        for key in sorted(groups, key=lambda k: (*order(k[1], k[2]), k[3])):
            held = [covers(table[key[1], key[2]], one) for one in groups[key]]
            found[key] = groups[key], sum(held) / len(held)
    return found


def covers(spread: Spread, one: Ratio) -> bool:
    """Whether a time lies within its interval, as `error_band` has it."""
    return min(1 - one.least, spread.low) <= one.share <= max(1 + one.least, spread.high)


def order(regime: str, most: int | None) -> tuple[str, float]:
    """Return what sorts regimes, and their sizes."""
    return regime, float("inf") if most is None else most


def all_ratios() -> Iterator[Ratio]:
    """Compare each machine's fit with what each other one measured."""
    for fit, machine in permutations(NAMES, 2):
        known = named_parameters(str(MACHINES / fit / "link-parameters.json"))
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
        kind = PointKind(row["kind"])
        point = Point(kind, int(row["h2d_bytes"]), int(row["d2h_bytes"]), int(row["streams"]))
        if kind in (PointKind.PAGEABLE, PointKind.FRESH) or fit == PAGEABLE:
            continue  # only one fit's are of memory that no cache holds
        if point not in times:
            times[point] = predicted(known, point)
        if times[point] is not None:
            ends = known, fit, machine
            yield ratio(ends, as_workload(point), float(row["seconds"]), times[point], "rounds")


def predicted(known: LinkParameters, point: Point) -> float | None:
    """Return what the parameters tell of a point; None for what they do not know."""
    match point.kind:
        case PointKind.COPIES:
            cost = known.copies(point.direction)
            return transfer_seconds(cost, point.bytes, point.streams).value
        case PointKind.DUPLEX if point.streams > 1:
            return replay(pattern_of(point), known).seconds
    return None


def as_workload(point: Point) -> tuple[Workload, Method, int]:
    """Return a point as a workload, so that it has a regime."""
    return Workload(point.h2d_bytes, point.d2h_bytes, 0.0), Method.STREAMS, point.streams


def of_workloads(known: LinkParameters, machine: str, fit: str) -> Iterator[Ratio]:
    """Compare a fit with the workloads of another machine."""
    times = json.loads((MACHINES / machine / "times.json").read_text())
    for case in times["cases"]:
        work = workload_of(case, {})
        for run in case["runs"]:
            method, streams = Method(run["method"]), run["streams"]
            if (method is Method.PAGEABLE) != (fit == PAGEABLE):
                continue
            seconds = median(run["seconds"])
            found = Replay().predict(work, method, streams, known).seconds
            for of in variants(work, method, case["workload"]):
                what, ends = (of, method, streams), (known, fit, machine)
                yield ratio(ends, what, seconds, found.value, "workloads")


def variants(work: Workload, method: Method, name: str) -> list[Workload]:
    """Return a workload as one of which nobody said how its kernel reads, and as one of which."""
    if method not in MAPPED or name not in WHOLE_LINES:
        return [work]
    return [work, replace(work, mapped_assumed=False)]


def ratio(
    ends: tuple[LinkParameters, str, str],
    what: tuple[Workload, Method, int],
    seconds: float,
    expected: float | None,
    source: str,
) -> Ratio:
    """Return a measured time as a share of its prediction, with its regime.

    `ends`: the parameters, whose they are, and which machine was measured.
    """
    known, fit, machine = ends
    regime, size = regime_of(*what), copy_bytes(*what)
    sizes = SIZES.get(regime, (None,))
    most = next(end for end in sizes if end is None or size <= end)
    least = 0.0 if known.errors is None else min(known.errors.p95, 1.0)
    return Ratio(fit, machine, regime, most, seconds / (expected or seconds), least, source)


if __name__ == "__main__":
    main()
