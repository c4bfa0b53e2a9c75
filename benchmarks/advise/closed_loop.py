"""The closed loop of advise: programs are watched, advised, changed as advised, and measured.

``python benchmarks/advise/closed_loop.py measure DIR`` runs on a machine with a GPU, of which
``lanescope model fit`` has been stored: each program before and after its change, in turns, then
once watched. ``python benchmarks/advise/closed_loop.py compare DIR`` needs no GPU: it advises on
the stored watches and compares the gain with the one measured.

`CHANGES` says which advice the form ``after`` follows. The forms were written
with the programs, this list before `advise` was changed for them: what fails stays in it.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
STEPS = 60
#: Steps that each program runs before those it times; they are in the watch, too.
WARMING = 5

#: By program, what its form ``after`` does; a change of advise that does more or less is another.
CHANGES = {
    "train-pageable": {"pin", "prefetch"},
    "infer-to-cpu": {"pin"},
    "many-small": {"pin", "batch"},
    "offload-layers": {"prefetch"},
    "item-each-step": {"defer"},
    "numpy-to-cupy": {"pin"},
    "filter": {"pin", "async", "streams"},
    "search": {"defer"},
}
IN_CUDA = ("filter", "search")


def main() -> None:
    """Measure or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["measure", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parameters", help="link parameters; default: those in the folder")
    parser.add_argument("--turns", type=int, default=3, help="of each form, in turns")
    given = parser.parse_args()
    if given.verb == "measure":
        measure(given.folder, given.turns)
    else:
        compare(given.folder, given.parameters or str(given.folder / "link-parameters.json"))


def measure(folder: Path, turns: int) -> None:
    """Run all programs in turns, then watch each before its change."""
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder.resolve() / "programs"
    source = str(HERE / "programs.cu")
    flags = ["-O3", "-std=c++17", "-arch=native", "-cudart", "static"]
    subprocess.run(["nvcc", *flags, "-o", str(binary), source], check=True)
    with (folder / "steps.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["program", "turn", "form", "seconds", "checksum"])
        for name in CHANGES:
            for turn in range(turns):
                for form in ("before", "after"):
                    said = run(command(name, form, binary))
                    rows.writerow([name, turn, form, *step_of(said)])
                    file.flush()
            out = str(folder / "watches" / name)
            watch = ["-m", "lanescope", "watch", "--kernels", "--out", out, "--"]
            print(run([sys.executable, *watch, *command(name, "before", binary)])[-2000:])
    binary.unlink()


def command(name: str, form: str, binary: Path) -> list[str]:
    """Return the command line of a program in one of its forms."""
    if name in IN_CUDA:
        return [str(binary), name, form, str(STEPS - WARMING)]
    example = [sys.executable, "-m", "lanescope.examples", "loop", name]
    return [*example, "--form", form, "--steps", str(STEPS)]


def run(words: list[str]) -> str:
    """Return what a command prints, whatever its exit code."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def step_of(said: str) -> tuple[str, str]:
    """Return the seconds of a step and the checksum that a program printed."""
    found = re.search(r": ([\d.]+) s a step, checksum (\S+)", said)
    if found is None:
        print(said[-2000:])
        return "", ""
    return found[1], found[2]


def compare(folder: Path, parameters: str) -> None:
    """Print a line for each program: the first advice, and the one that was followed."""
    steps = measured_steps(folder)
    print("program: ms a step before, after, gain; advised first; followed; predicted, error")
    within = held = 0
    for name, followed in CHANGES.items():
        if name not in steps:
            print(f"{name}: not measured")
            continue
        before, after = steps[name]["before"], steps[name]["after"]
        gain, ms = before - after, 1e3
        line = f"{name}: {before * ms:.3f}, {after * ms:.3f}, {gain * ms:+.3f}"
        advice = advised(folder / "watches" / name, parameters)
        first = next((one for one in advice if one["worth"]), None)
        line += f"; {first['kind'] if first else 'nothing'}"
        one = next((one for one in advice if set(one["steps"]) == followed), None)
        line += f"; {'+'.join(sorted(followed))}"
        if one is None:
            print(f"{line}: not among the advice")
            continue
        same = [
            other
            for other in advice
            if set(other["steps"]) == followed and other["predicted_run_gain_seconds"]
        ]
        predicted, low, high = (
            sum(other["predicted_run_gain_seconds"][end] for other in same) / STEPS
            for end in ("value", "low", "high")
        )
        held += low <= gain <= high
        close = abs(predicted - gain) <= max(0.25 * abs(gain), 0.02 * before)
        within += close
        note = "" if one["worth"] else f" (not worth it: {one['why_not']})"
        print(
            f"{line}; {predicted * ms:+.3f}, {predicted / gain - 1:+.1%}"
            f"{'' if close else ', off'}{note}"
        )
    print(f"\n{within} of {len(CHANGES)} gains within 25 % of the prediction or 2 % of a step")
    print(f"{held} of {len(CHANGES)} gains within the interval of the prediction")


def measured_steps(folder: Path) -> dict[str, dict[str, float]]:
    """Return the median seconds of a step over the turns, by program and form."""
    with (folder / "steps.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["seconds"]]
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        forms = found.setdefault(row["program"], {})
        forms.setdefault(row["form"], []).append(float(row["seconds"]))
    return {
        name: {form: median(values) for form, values in forms.items()}
        for name, forms in found.items()
        if len(forms) > 1
    }


def advised(watch: Path, parameters: str) -> list[dict[str, object]]:
    """Return the changes of all phases, each phase's as advise has them, the first phase first."""
    words = f"{sys.executable} -m lanescope advise".split()
    said = run([*words, str(watch), "--json", "--parameters", parameters])
    try:
        phases = json.loads(said)["phases"]
    except ValueError:
        print(said[-1000:])
        return []
    return [change for phase in phases for change in phase["changes"]]


if __name__ == "__main__":
    main()
