"""The closed loop of advise: programs are watched, advised, changed as advised, and measured.

``python benchmarks/advise/closed_loop.py measure DIR`` runs on a machine with a GPU, of which
``lanescope model fit`` has been stored: each program before and after its change, in turns, then
once watched. ``python benchmarks/advise/closed_loop.py compare DIR`` needs no GPU: it advises on
the stored watches and compares the gain with the one measured.

`CHANGES` says which advice the form ``after`` follows. The forms were written
with the programs, this list before `advise` was changed for them: what fails stays in it.
``measure DIR --programs unseen`` takes the programs of unseen.py and unseen.cu in their place.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import re
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import unseen

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
#: Seconds that a program may take.
LIMIT = 120


@dataclass(frozen=True)
class Programs:
    """Programs, the changes of their forms ``after``, and how they are run."""

    changes: dict[str, set[str]]
    in_cuda: tuple[str, ...]
    source: str  # of those in CUDA C++
    loops: tuple[str, ...]  # of the others: what Python is given before a name
    forked: tuple[str, ...] = ()  # of unseen.py: forked off this process once PyTorch is imported

    def command(self, name: str, form: str, binary: Path) -> list[str]:
        """Return the command line of a program in one of its forms."""
        if name in self.in_cuda:
            return [str(binary), name, form, str(STEPS - WARMING)]
        return [sys.executable, *self.loops, name, "--form", form, "--steps", str(STEPS)]

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the forms of a program; where nothing is to be gained, it has one."""
        return ("before", "after") if self.changes[name] else ("before",)


SETS = {
    "first": Programs(CHANGES, IN_CUDA, "programs.cu", loops=("-m", "lanescope.examples", "loop")),
    "unseen": Programs(
        unseen.CHANGES,
        unseen.IN_CUDA,
        "unseen.cu",
        loops=(str(HERE / "unseen.py"),),
        forked=unseen.IN_PYTORCH,
    ),
}


def main() -> None:
    """Measure or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["measure", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parameters", help="link parameters; default: those in the folder")
    parser.add_argument("--turns", type=int, default=3, help="of each form, in turns")
    parser.add_argument("--programs", choices=SETS, default="first", help="of measure")
    given = parser.parse_args()
    if given.verb == "measure":
        measure(given.folder, given.turns, SETS[given.programs])
    else:
        compare(given.folder, given.parameters or str(given.folder / "link-parameters.json"))


def measure(folder: Path, turns: int, programs: Programs) -> None:
    """Run all programs in turns, then watch each before its change."""
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder.resolve() / "programs"
    source = str(HERE / programs.source)
    flags = ["-O3", "-std=c++17", "-arch=native", "-cudart", "static"]
    subprocess.run(["nvcc", *flags, "-o", str(binary), source], check=True)
    with (folder / "steps.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["program", "turn", "form", "seconds", "checksum"])
        for name in programs.changes:
            for turn in range(turns):
                for form in programs.forms(name):
                    if name in programs.forked:
                        said = forked(name, form)
                    else:
                        said = run(programs.command(name, form, binary))
                    rows.writerow([name, turn, form, *step_of(said)])
                    file.flush()
            out = str(folder / "watches" / name)
            watch = ["-m", "lanescope", "watch", "--kernels", "--out", out, "--"]
            command = programs.command(name, "before", binary)
            print(run([sys.executable, *watch, *command])[-2000:], flush=True)
    binary.unlink()


def forked(name: str, form: str) -> str:
    """Return what a program of PyTorch prints in a process of its own, forked off this one.

    To import PyTorch takes longer than the program: this process does it once, and leaves the GPU
    alone, so that each program starts with a fresh one.
    """
    import torch  # noqa: F401

    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=send_outcome, args=(sender, name, form))
    child.start()
    sender.close()
    try:
        ended = receiver.poll(LIMIT)
        said = str(receiver.recv()) if ended else f"{name}: over {LIMIT} s"
        child.join(5 if ended else 0)
    except EOFError:  # the child's traceback is on standard error
        said = f"{name}: failed"
    child.kill()
    child.join()
    return said


def send_outcome(sender: Connection, name: str, form: str) -> None:
    sender.send(unseen.outcome(name, form == "after", STEPS))


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
    changes = next((one.changes for one in SETS.values() if steps.keys() & one.changes), CHANGES)
    print("program: ms a step before, after, gain; advised first; followed; predicted, error")
    changing = sum(map(bool, changes.values()))
    within = held = spared = 0
    for name, followed in changes.items():
        forms = steps.get(name, {})
        if "before" not in forms or (followed and "after" not in forms):
            print(f"{name}: not measured")
            continue
        advice = advised(folder / "watches" / name, parameters)
        if advice is None:
            print(f"{name}: advise failed, see above")
        elif followed:
            line, close, inside = compared(followed, forms["before"], forms["after"], advice)
            print(f"{name}: {line}")
            within += close
            held += inside
        else:
            line, right = unchanged(forms["before"], advice)
            print(f"{name}: {line}")
            spared += right
    print(f"\n{within} of {changing} gains within 25 % of the prediction or 2 % of a step")
    print(f"{held} of {changing} gains within the interval of the prediction")
    if changing < len(changes):
        rest = len(changes) - changing
        print(f"{spared} of {rest} programs in which nothing is to be gained got no advice")


def compared(
    followed: set[str], before: float, after: float, advice: list[dict[str, object]]
) -> tuple[str, bool, bool]:
    """Return a program's line, whether its gain is close to the prediction, and in its interval."""
    gain, ms = before - after, 1e3
    line = f"{before * ms:.3f}, {after * ms:.3f}, {gain * ms:+.3f}"
    first = next((one for one in advice if one["worth"]), None)
    line += f"; {first['kind'] if first else 'nothing'}"
    same = doing(followed, advice)
    line += f"; {'+'.join(sorted(followed))}"
    if not same:
        return f"{line}: not among the advice", False, False
    one = same[0]
    same = [other for other in same if other["predicted_run_gain_seconds"]]
    predicted, low, high = (
        sum(other["predicted_run_gain_seconds"][end] for other in same) / STEPS
        for end in ("value", "low", "high")
    )
    close = abs(predicted - gain) <= max(0.25 * abs(gain), 0.02 * before)
    note = "" if one["worth"] else f" (not worth it: {one['why_not']})"
    line += f"; {predicted * ms:+.3f}, {predicted / gain - 1:+.1%}{'' if close else ', off'}{note}"
    return line, close, low <= gain <= high


def doing(followed: set[str], advice: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the advice that does what was followed, no more and no less.

    What is named so; where nothing is, what waits once for copies whose calls are asynchronous
    already, which is no step of its own.
    """
    named = [one for one in advice if set(one["steps"]) == followed]
    return named or [
        one for one in advice if one.get("waits_once") and {*one["steps"], "async"} == followed
    ]


def unchanged(before: float, advice: list[dict[str, object]]) -> tuple[str, bool]:
    """Return the line of a program in which nothing is to be gained, and whether advise agrees."""
    line = f"{before * 1e3:.3f}, nothing is to be gained"
    first = next((one for one in advice if one["worth"]), None)
    if first is None:
        return f"{line}; nothing advised", True
    gains = first["predicted_run_gain_seconds"]
    predicted = f" for {gains['value'] / STEPS * 1e3:+.3f}" if gains else ""
    return f"{line}; {first['kind']}{predicted}, wrong", False


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
    }


def advised(watch: Path, parameters: str) -> list[dict[str, object]] | None:
    """Return the changes of all phases, each phase's as advise has them; None where it failed."""
    words = f"{sys.executable} -m lanescope advise".split()
    said = run([*words, str(watch), "--json", "--parameters", parameters])
    try:
        phases = json.loads(said)["phases"]
    except ValueError:
        print(said[-1000:])
        return None
    return [change for phase in phases for change in phase["changes"]]


if __name__ == "__main__":
    main()
