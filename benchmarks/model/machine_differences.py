"""How far a perfect model of one machine would be off on another one of its kind.

``python benchmarks/model/machine_differences.py`` takes what a workload took on one machine for a
prediction of what it takes on another one, of all ordered pairs of the machines on which
benchmarks/model/workloads.cu ran, and one round of a run for a prediction of the other. It prints
how far both are off, next to predictions by the fit of another machine, and then what those fits
all predict too long, or all too short, by more than machines differ.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import permutations, product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from across_machines import MACHINES
from workloads import MIB, workload_of

from lanescope.prediction.predictor import MAPPED, Method
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters

#: Folders of `MACHINES` with times of the workloads; on `BUSY` something else was busy.
NAMES = ("a", "b", "c", "d", "j", "k")
BUSY = "a"
#: Those by whose fits pageable memory is predicted: the others' copies were of cached memory.
UNCACHED = ("d", "j", "k")
#: Whose fits also time pageable memory that the host's caches hold, as the workloads' is.
CACHED = ("m", "n")
#: Two launches of half of the work take so many times as long as one of all of it, where the parts
#: of a kernel run side by side.
SIDE_BY_SIDE = 1.8
#: No kernel takes less than this share of its time by events.
LEAST_KERNEL = 0.25


class Source(StrEnum):
    """What is taken for a prediction."""

    MACHINE = "another machine's time"
    ROUND = "the other round's time"
    FIT = "another machine's fit"
    SHORTER = "the same, kernels without what events add"


#: Method, MiB to the GPU, workload, streams.
Cell = tuple[Method, int, str, int]
Case = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """What was taken for a prediction over the time that was measured, less 1.

    Attributes
    ----------
    machines
        Where the prediction comes from, and which was measured.
    """

    source: Source
    cell: Cell
    machines: tuple[str, str]
    error: float


def main() -> None:
    """Print the errors by method and size, without the busy machine and with it."""
    cases = {name: cases_of(name) for name in NAMES}
    added = {name: added_by_events(those) for name, those in cases.items()}
    print("what a pair of events adds to the time of a kernel, us")
    print(", ".join(f"{name} {seconds * 1e6:.1f}" for name, seconds in added.items()))
    every = [*measured(cases), *predicted(cases, added)]
    calm = [one for one in every if BUSY not in one.machines]
    print_errors(f"all machines but {BUSY}", calm)
    print_errors("all machines", every)
    print_beyond(calm)
    print_cached({name: those for name, those in cases.items() if name != BUSY})


def cases_of(name: str) -> list[Case]:
    """Return what a machine measured."""
    cases: list[Case] = json.loads((MACHINES / name / "times.json").read_text())["cases"]
    return cases


def added_by_events(cases: Iterable[Case]) -> float:
    """Return how much longer a kernel looks between two events on an idle stream.

    The first event is over before the kernel's launch has reached the GPU. Where parts run side by
    side, each takes as long as the whole: n launches, one behind the other, take that n times, and
    what events add once.
    """
    found = []
    for case in cases:
        took = {int(parts): median(seconds) for parts, seconds in case["kernels"].items()}
        if 4 in took and took[2] > SIDE_BY_SIDE * took[1]:
            found.append(took[1] - (took[4] - took[1]) / 3)
    return median(found)


def without_events(case: Case, added: float) -> Case:
    """Return a case whose kernels, in one launch or in several, take so much less."""
    kernels = {
        parts: [max(one - added, LEAST_KERNEL * one) for one in seconds]
        for parts, seconds in case["kernels"].items()
    }
    return {**case, "kernels": kernels}


def measured(cases: Mapping[str, list[Case]]) -> Iterator[Difference]:
    """Compare each machine's times with every other one's, and its own rounds."""
    times = {
        name: dict(run for one in those for run in runs_of(one)) for name, those in cases.items()
    }
    for other, name in permutations(times, 2):
        for cell, seconds in times[name].items():
            error = median(times[other][cell]) / median(seconds) - 1
            yield Difference(Source.MACHINE, cell, (other, name), error)
    for name, runs in times.items():
        for cell, seconds in runs.items():
            half = len(seconds) // 2
            share = median(seconds[:half]) / median(seconds[half:])
            yield Difference(Source.ROUND, cell, (name, name), share - 1)
            yield Difference(Source.ROUND, cell, (name, name), 1 / share - 1)


def predicted(cases: Mapping[str, list[Case]], added: Mapping[str, float]) -> Iterator[Difference]:
    """Compare each machine's times with predictions by every other one's fit."""
    for fit, name in permutations(cases, 2):
        known = named_parameters(str(MACHINES / fit / "link-parameters.json"))
        for case in cases[name]:
            works = {
                Source.FIT: workload_of(case, {}),
                Source.SHORTER: workload_of(without_events(case, added[name]), {}),
            }
            for cell, seconds in runs_of(case):
                method, _, _, streams = cell
                if method is Method.PAGEABLE and fit not in UNCACHED:
                    continue
                for source, work in works.items():
                    found = Replay().value(work, method, streams, known)
                    yield Difference(source, cell, (fit, name), found / median(seconds) - 1)


def runs_of(case: Case) -> Iterator[tuple[Cell, list[float]]]:
    """Return the samples of each method and number of streams, in the order of time."""
    for run in case["runs"]:
        mib = round(case["h2d_bytes"] / MIB)
        yield (Method(run["method"]), mib, case["workload"], run["streams"]), run["seconds"]


def print_errors(title: str, those: Iterable[Difference]) -> None:
    """Print the errors of each method, size and source."""
    found: dict[tuple[Method, int], dict[Source, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in those:
        found[one.cell[:2]][one.source].append(one.error)
    print(
        f"\n{title}\nmethod, MiB, what is taken for a prediction: times, median |error|, ", end=""
    )
    print("90th percentile, furthest below, furthest above, median")
    for (method, mib), by_source in sorted(found.items(), key=lambda one: place(*one[0])):
        for source, errors in by_source.items():
            print(f"{method}, {mib}, {source}: {summary(errors)}")


def summary(errors: list[float]) -> str:
    """Return how many errors there are and how large they are."""
    middle, most = np.percentile(np.abs(errors), [50, 90])
    ends = f"{min(errors):+.1%}, {max(errors):+.1%}, {median(errors):+.1%}"
    return f"{len(errors)}, {middle:.1%}, {most:.1%}, {ends}"


def print_beyond(those: Iterable[Difference]) -> None:
    """Print where all fits are off to the same side, by more than 90 % of the pairs of machines.

    Not of mapped memory: how a kernel reaches it no fit knows.
    """
    found: dict[Cell, dict[Source, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in those:
        if one.cell[0] not in MAPPED:
            found[one.cell][one.source].append(one.error)
    print(f"\nall fits to one side, by more than 90 % of the pairs of machines but {BUSY}")
    print("method, MiB, workload, streams: median, furthest below, furthest above; of the pairs")
    count = 0
    for cell, by_source in sorted(found.items(), key=lambda one: (place(*one[0][:2]), one[0][2:])):
        errors = by_source[Source.FIT]
        most = float(np.percentile(np.abs(by_source[Source.MACHINE]), 90))
        if min(errors) * max(errors) > 0 and abs(median(errors)) > most:
            count += 1
            ends = f"{min(errors):+.1%}, {max(errors):+.1%}"
            print(f"{', '.join(map(str, cell))}: {median(errors):+.1%}, {ends}; {most:.1%}")
    print(f"{count} of {len(found)}")


def place(method: Method, mib: int) -> tuple[int, int]:
    """Return what sorts by method and size."""
    return list(Method).index(method), mib


def print_cached(cases: Mapping[str, list[Case]]) -> None:
    """Print how far Pageable is off by fits that time cached memory, without that and with."""
    fits = [named_parameters(str(MACHINES / fit / "link-parameters.json")) for fit in CACHED]
    found: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for case in (case for those in cases.values() for case in those):
        work = workload_of(case, {})
        for (method, mib, _, streams), seconds in runs_of(case):
            if method is Method.PAGEABLE:
                for known, cached in product(fits, (False, True)):
                    given = replace(work, host_cached=cached)
                    share = Replay().value(given, method, streams, known) / median(seconds)
                    found[mib, cached].append(share - 1)
    print(f"\nPageable by the fits of {' and '.join(CACHED)}, all machines but {BUSY}")
    print("MiB, memory: times, median |error|, 90th percentile, furthest below and above, median")
    for (mib, cached), errors in sorted(found.items()):
        print(f"{mib}, {'in the caches' if cached else 'in no cache'}: {summary(errors)}")


if __name__ == "__main__":
    main()
