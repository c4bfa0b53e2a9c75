"""How far predictions for several GPUs are from stored runs that did not make their parameters.

``python benchmarks/model/several_gpus.py`` fits what GPUs contend for in host memory to one run
of four GPUs, and compares the rates that follow with other runs: of the same machine with two
GPUs, and of other machines of the same kind with two. GB/s of all copies of a set together.

``python benchmarks/model/several_gpus.py DIR`` does so for what several_gpus.sh leaves: a fit over
all GPUs, and copies that it has not had. With a round's number after DIR the fit has the sets of
that round, too, which a fit measures nowadays, and is compared with the other rounds.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import mean, pstdev

from lanescope.prediction.contention import (
    CopyRate,
    Together,
    expected_gbs,
    fit_contention,
    together_of,
)
from lanescope.prediction.parameters import Direction
from lanescope.store.store import read_run
from lanescope.studies.fit_run import contention_text, fit_folder
from lanescope.units.estimate import Estimate

RESULTS = Path(__file__).parents[1] / "results"
FITTED = RESULTS / "h200-x4/bench"
_WANTED = 0.05
RUNS = (RESULTS / "h200-x2/bench",)
TURNS = ("nvbandwidth", "nvbandwidth-second", "nvbandwidth-third", "nvbandwidth-fourth")


def main() -> None:
    """Print what was fitted, and a line for each set that was not."""
    fitted = sets_of(FITTED)
    found = fit_contention(fitted, "lanescope bench")
    print(f"Fitted to {FITTED.relative_to(RESULTS)}, sets of four GPUs by copy engine:")
    print("\n".join(contention_text(one) for one in found))
    print("\nrun, directions, GPUs: measured, expected, error")
    errors = []
    for name, one, alone in held_out():
        expected = sum(expected_gbs(one, alone, found))
        errors.append(expected / one.gbs() - 1)
        ways = "both ways" if len(one.directions) > 1 else str(*one.directions)
        print(
            f"{name}, {ways}, {len(one.gpus)}: {one.gbs():.1f}, {expected:.1f}, {errors[-1]:+.1%}"
        )
    print(f"\n{len(errors)} sets, errors from {min(errors):+.1%} to {max(errors):+.1%}")


def compare(folder: Path, added: str = "") -> None:
    """Print how far the fit in a folder is from the copies beside it, set by set."""
    _, _, fitted = fit_folder(folder / "fit")
    runs = sorted((folder / "copies").iterdir())
    more = [one for run in runs if run.name.split("-")[0] == added for one in sets_of(run)]
    more = [one for one in more if len(one.rates) in (len(one.gpus), 2 * len(one.gpus))]
    found = fit_contention([*fitted.sets, *more], "lanescope model fit")
    print("\n".join(contention_text(one) for one in found))
    print("\nset, round: measured, expected GB/s in sum, error; each copy")
    errors: list[float] = []
    spread = max((one.spread for one in found), default=0.0)
    for run in runs:
        number = run.name.split("-")[0]
        if number == added:
            continue
        for one in sets_of(run):
            each = expected_gbs(one, fitted.sets, found)
            errors.append(sum(each) / one.gbs() - 1)
            copies = ", ".join(
                f"{'h0 -> g' if rate.direction is Direction.H2D else 'h0 <- g'}{rate.gpu} "
                f"{rate.gbs.value:.1f} ({gbs:.1f})"
                for rate, gbs in zip(one.rates, each, strict=True)
            )
            total = sum(each)
            print(f"round {number}: {one.gbs():.1f}, {total:.1f}, {errors[-1]:+.1%}; {copies}")
    print(f"\n{len(errors)} sets, errors from {min(errors):+.1%} to {max(errors):+.1%}")
    print(f"mean {mean(errors):+.1%}, standard deviation {pstdev(errors):.1%}")
    few = sum(abs(error) <= _WANTED for error in errors)
    covered = sum(abs(1 / (1 + error) - 1) <= spread for error in errors)
    print(f"{few} within {_WANTED:.0%}; {covered} measured within the spread of {spread:.1%}")


def sets_of(folder: Path) -> list[Together]:
    """Return the sets of a run by copy engine."""
    results = (one for one in read_run(folder).results if "@" not in one.experiment.name)
    return [one for one in map(together_of, results) if one is not None]


def held_out() -> list[tuple[str, Together, list[Together]]]:
    """Return sets of other runs, each with those of one GPU alone."""
    found = []
    for folder in RUNS:
        sets = sets_of(folder)
        name = str(folder.relative_to(RESULTS))
        found += [(name, one, sets) for one in sets if len(one.gpus) > 1]
    alone = sets_of(RUNS[0])
    for name in TURNS:
        one = both_ways(RESULTS / "h200-x2" / name / "cells.csv")
        found.append((f"h200-x2/{name}", one, alone))
    return found


def both_ways(cells: Path) -> Together:
    """Return all GPUs both ways, each cell the median of its turns."""
    cases = {
        "host_to_all_bidirectional_memcpy_ce": Direction.H2D,
        "all_to_host_bidirectional_memcpy_ce": Direction.D2H,
    }
    with cells.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["case"] in cases]
    return Together(
        0,
        tuple(
            CopyRate(
                int(row["column"]), cases[row["case"]], Estimate.exactly(float(row["lanescope"]))
            )
            for row in rows
        ),
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compare(Path(sys.argv[1]), *sys.argv[2:])
    else:
        main()
