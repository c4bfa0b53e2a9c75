"""Compares predictions with workloads on which nothing was fitted or tuned.

``python benchmarks/model/workloads.py TIMES.json --parameters NAME|FILE|RUN`` takes
what benchmarks/model/workloads.cu timed, predicts each time from the workload's bytes, arrays and
kernel time, and prints the errors: predicted over measured, less 1. A time is the median of its
samples. Chosen is what `lanescope model predict` would advise among the same numbers of streams;
its loss is how much longer it takes than the fastest that was measured.

With ``--measured OTHER.json --measured-parameters NAME|FILE|RUN`` a kernel's reads and writes of
mapped memory are worked out from what Hybrid and Implicit with one stream took on another machine,
with its parameters, as `model predict --measured` does: at each size, or at one (`--measured-mib`).
``--measured-streams N`` takes Hybrid with the most streams up to N besides, which tells how much
its writes hold up copies.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.predictor import (
    MAPPED,
    Method,
    Workload,
    with_contention,
    with_crossings,
)
from lanescope.prediction.rank import rank
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters

MIB = 1 << 20
#: Of the kernel's times in parts those that are given, with that of the whole.
PARTS = ("4", "16")


@dataclass(frozen=True)
class Compared:
    """A measured time and its prediction."""

    workload: str
    mib: float
    method: Method
    streams: int
    seconds: float
    spread: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return self.predicted / self.seconds - 1

    @property
    def covered(self) -> bool:
        return self.low <= self.seconds <= self.high


@dataclass(frozen=True)
class Chosen:
    """What was advised for a workload, and what that costs."""

    workload: str
    mib: float
    advised: str
    fastest: str
    loss: float
    loss_among_copies: float


def main() -> None:
    """Print the errors by method, and by method and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", type=Path)
    parser.add_argument("--parameters", default="h200")
    parser.add_argument("--measured", type=Path, metavar="OTHER.json")
    parser.add_argument("--measured-parameters", help="of that machine")
    parser.add_argument("--measured-mib", type=int, help="at that size; default: each at its own")
    parser.add_argument("--measured-streams", type=int, default=1, help="of Hybrid, up to so many")
    given = parser.parse_args()
    known = named_parameters(given.parameters)
    crossings: Crossings = {}
    if given.measured is not None:
        other = json.loads(given.measured.read_text())
        by = named_parameters(given.measured_parameters or given.parameters)
        crossings = crossings_of(other, given.measured_mib, by, given.measured_streams)
        for (name, mib), (reads, writes, held) in crossings.items():
            size = f" of {mib} MiB" if mib else ""
            text = f"{name}{size}: each byte is read {reads:.3g} and written {writes:.3g} times"
            print(text if given.measured_streams == 1 else f"{text}, contention {held:.2f}")
    times = json.loads(given.times.read_text())
    wrong = [
        f"{case['workload']} {run['method']} {run['streams']}"
        for case in times["cases"]
        for run in case["runs"]
        if not run["same"]
    ]
    print(f"{times['gpu']}; predicted by replay for {known.name}, {known.source}")
    print(f"outputs that differ from Explicit's: {', '.join(wrong) or 'none'}")
    works = [workload_of(case, crossings) for case in times["cases"]]
    cases = list(zip(times["cases"], works, strict=True))
    compared = [one for case, work in cases for one in compare(case, work, known)]
    print_errors(compared)
    if given.measured_streams > 1:
        print_others(compared, given.measured_streams)
    print_choices([choose(case, work, known) for case, work in cases])


#: By workload and MiB, or 0 for all sizes, how often a kernel reads and writes a mapped byte, and
#: its `Workload.mapped_contention`.
Crossings = dict[tuple[str, int], tuple[float, float, float]]


def crossings_of(
    times: dict[str, Any], mib: int | None, known: LinkParameters, most_streams: int
) -> Crossings:
    """Return what the times of rounds say of kernels, of all sizes or of about so many MiB."""
    found = {}
    for case in times["cases"]:
        size = round(case["h2d_bytes"] / MIB)
        if mib in (None, size):
            measured = {
                Method(run["method"]): median(run["seconds"])
                for run in case["runs"]
                if run["method"] in MAPPED and run["streams"] == 1
            }
            work = with_crossings(workload_of(case, {}), measured, known, Replay())
            several = {
                run["streams"]: median(run["seconds"])
                for run in case["runs"]
                if run["method"] == Method.HYBRID and 1 < run["streams"] <= most_streams
            }
            if several:
                streams = max(several)
                work = with_contention(work, streams, several[streams], known, Replay())
            key = case["workload"], size if mib is None else 0
            found[key] = work.mapped_reads, work.mapped_writes, work.mapped_contention
    return found


def workload_of(case: dict[str, Any], crossings: Crossings) -> Workload:
    """Return what a prediction gets of a case: bytes, arrays, times of its kernel, its reads."""
    name, size = case["workload"], round(case["h2d_bytes"] / MIB)
    known = crossings.get((name, 0), crossings.get((name, size)))
    reads, writes, held = (case["mapped_reads"], 1.0, 1.0) if known is None else known
    return Workload(
        case["h2d_bytes"],
        case["d2h_bytes"],
        median(case["kernels"]["1"]),
        case["h2d_arrays"],
        case["d2h_arrays"],
        most_streams=case["units"],
        mapped_reads=reads,
        mapped_writes=writes,
        mapped_contention=held,
        mapped_assumed=known is None,
        steps=case.get("steps"),
        kernel_parts=tuple(
            (int(parts), median(seconds) / int(parts))
            for parts, seconds in case["kernels"].items()
            if parts in PARTS
        ),
    )


def compare(case: dict[str, Any], work: Workload, known: LinkParameters) -> Iterator[Compared]:
    """Predict each time of a case."""
    by = Replay()
    for run in case["runs"]:
        method, seconds = Method(run["method"]), median(run["seconds"])
        found = by.predict(work, method, run["streams"], known).seconds
        low, high = np.percentile(run["seconds"], [5, 95])
        yield Compared(
            case["workload"],
            case["h2d_bytes"] / MIB,
            method,
            run["streams"],
            seconds,
            float(high - low) / seconds,
            found.value,
            found.low,
            found.high,
        )


def choose(case: dict[str, Any], work: Workload, known: LinkParameters) -> Chosen:
    """Return what is advised among the methods that need no pageable memory, and its loss."""
    counts = tuple(sorted({run["streams"] for run in case["runs"]}))
    best = rank(work, known, Replay(), counts).chosen
    times = {
        (Method(run["method"]), run["streams"]): median(run["seconds"]) for run in case["runs"]
    }
    fastest = min(times, key=lambda key: times[key])
    took = times[best.method, best.streams]
    return Chosen(
        case["workload"],
        case["h2d_bytes"] / MIB,
        f"{best.method} {best.streams}",
        f"{fastest[0]} {fastest[1]}",
        took / times[fastest] - 1,
        took / min(seconds for key, seconds in times.items() if key[0] not in MAPPED) - 1,
    )


def print_errors(compared: list[Compared]) -> None:
    """Print the errors by method and size, then each workload's furthest."""
    by_method: dict[tuple[Method, float], list[Compared]] = defaultdict(list)
    for one in compared:
        by_method[one.method, round(one.mib)].append(one)
    print("\nmethod, MiB: times, median |error|, furthest below, furthest above, within interval")
    for (method, mib), those in sorted(by_method.items()):
        errors = [one.error for one in those]
        print(
            f"{method}, {mib}: {len(those)}, {median(map(abs, errors)):.1%}, {min(errors):+.1%}, "
            f"{max(errors):+.1%}, {sum(one.covered for one in those) / len(those):.0%}"
        )
    print("\nfurthest of each method and workload, 8 MiB and more")
    by_workload: dict[tuple[Method, str], list[Compared]] = defaultdict(list)
    for one in compared:
        if one.mib >= 7:
            by_workload[one.method, one.workload].append(one)
    for (method, workload), those in sorted(by_workload.items()):
        worst = max(those, key=lambda one: abs(one.error))
        print(
            f"{method}, {workload}: {worst.error:+.1%} at {worst.mib:.0f} MiB, {worst.streams} "
            f"streams ({worst.predicted * 1e3:.3f} for {worst.seconds * 1e3:.3f} ms, runs within "
            f"{worst.spread:.1%})"
        )


def print_others(compared: list[Compared], timed: int) -> None:
    """Print how many times of Hybrid with several streams, not the timed one, are near."""
    by_case: dict[tuple[str, float], list[Compared]] = defaultdict(list)
    for one in compared:
        if one.method is Method.HYBRID and one.streams > 1:
            by_case[one.workload, one.mib].append(one)
    others: list[Compared] = []
    for those in by_case.values():
        known = max((one.streams for one in those if one.streams <= timed), default=0)
        others += [one for one in those if one.streams != known]
    print("\nHybrid with two streams or more that was not timed")
    for least in (0, 64):
        errors = [abs(one.error) for one in others if round(one.mib) >= least]
        size = f"from {least} MiB on" if least else "of any size"
        print(f"{size}: {sum(error <= 0.08 for error in errors)} of {len(errors)} within 8 %")


def print_choices(chosen: list[Chosen]) -> None:
    """Print what was advised where it was not the fastest, and the share that lost little."""
    print("\nadvised, and how much longer it takes than the fastest measured")
    for one in sorted(chosen, key=lambda c: -c.loss):
        if one.loss > 0.01:
            print(
                f"{one.workload}, {one.mib:.0f} MiB: {one.advised}, fastest {one.fastest}, "
                f"{one.loss:+.1%}"
            )
    few = sum(one.loss <= 0.03 for one in chosen)
    copies = [one.loss_among_copies for one in chosen]
    print(f"{few} of {len(chosen)} within 3 % of the fastest")
    print(
        f"{sum(loss <= 0.03 for loss in copies)} of {len(chosen)} within 3 % of the fastest that "
        f"copies, {max(copies):.1%} at most"
    )


if __name__ == "__main__":
    main()
