"""The closed loop of advise: programs are watched, advised, changed as advised, and measured.

``python benchmarks/advise/closed_loop.py measure DIR`` runs on a machine with a GPU, of which
``lanescope model fit`` has been stored: each program before and after its change, in turns, then
once watched. ``python benchmarks/advise/closed_loop.py compare DIR`` needs no GPU: it advises on
the stored watches and compares the gain with the one measured.

`CHANGES` says which advice the form ``after`` follows. The forms were written
with the programs, this list before `advise` was changed for them: what fails stays in it.
``measure DIR --programs unseen`` takes the programs of unseen.py and unseen.cu in their place,
``--programs later`` those of later.py and later.cu, ``--programs blind`` those of blind.py and
blind.cu, ``--programs fresh`` those of fresh.py and fresh.cu, ``--programs sixth`` those of
sixth.py and sixth.cu, ``--programs seventh`` those of seventh.py and seventh.cu,
``--programs eighth`` those of eighth.py and eighth.cu, ``--programs ninth`` those of ninth.py and
ninth.cu, ``--programs tenth`` those of tenth.py and tenth.cu, ``--programs eleventh`` those of
eleventh.py and eleventh.cu, ``--programs twelfth`` those of twelfth.py and twelfth.cu,
``--programs thirteenth`` those of thirteenth.py and thirteenth.cu, ``--programs fourteenth`` those
of fourteenth.py and fourteenth.cu, ``--programs fifteenth`` those of fifteenth.py and fifteenth.cu,
``--programs sixteenth`` those of sixteenth.py and sixteenth.cu. ``--programs literal`` takes those
of literal.py and literal.cu: programs of other sets, changed as the first advice says.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from types import ModuleType

import blind
import eighth
import eleventh
import fifteenth
import fourteenth
import fresh
import later
import literal
import ninth
import seventh
import sixteenth
import sixth
import tenth
import thirteenth
import twelfth
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
    """Programs, the changes of their forms ``after``, and how they are run.

    Of a program in which nothing is to be gained `changes` accepts no set of steps. Of others
    each set names what the form ``after`` does, where there are several names for it.
    """

    changes: dict[str, tuple[set[str], ...]]
    in_cuda: tuple[str, ...]
    source: str  # of those in CUDA C++
    loops: tuple[str, ...]  # of the others: what Python is given before a name
    forked: tuple[str, ...] = ()  # forked off this process once PyTorch is imported
    functions: dict[str, Callable[[bool], Iterator[float]]] = field(default_factory=dict)  # of them
    #: What the form ``after`` does where nothing is to be gained; those not in it have one form.
    tempting: dict[str, set[str]] = field(default_factory=dict)

    def command(self, name: str, form: str, binary: Path) -> list[str]:
        """Return the command line of a program in one of its forms."""
        if name in self.in_cuda:
            return [str(binary), name, form, str(STEPS - WARMING)]
        return [sys.executable, *self.loops, name, "--form", form, "--steps", str(STEPS)]

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the forms of a program."""
        changed = self.changes[name] or name in self.tempting
        return ("before", "after") if changed else ("before",)


def one_name(changes: dict[str, set[str]]) -> dict[str, tuple[set[str], ...]]:
    """Return the sets of steps that are accepted where each change has one name, or is none."""
    return {name: (steps,) if steps else () for name, steps in changes.items()}


def set_of(module: ModuleType, changes: dict[str, tuple[set[str], ...]]) -> Programs:
    """Return the programs of a module, and of the file of CUDA C++ beside it."""
    name = module.__name__
    return Programs(
        changes,
        module.IN_CUDA,
        f"{name}.cu",
        loops=(str(HERE / f"{name}.py"),),
        forked=module.IN_PYTORCH,
        functions=module.PROGRAMS,
        tempting=getattr(module, "TEMPTING", {}),
    )


SETS = {
    "first": Programs(
        one_name(CHANGES), IN_CUDA, "programs.cu", loops=("-m", "lanescope.examples", "loop")
    ),
    "unseen": set_of(unseen, one_name(unseen.CHANGES)),
} | {
    module.__name__: set_of(module, module.CHANGES)
    for module in (
        later,
        blind,
        fresh,
        sixth,
        seventh,
        eighth,
        ninth,
        tenth,
        eleventh,
        twelfth,
        thirteenth,
        fourteenth,
        fifteenth,
        sixteenth,
        literal,
    )
}


def main() -> None:
    """Measure or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["measure", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parameters", help="link parameters; default: those in the folder")
    parser.add_argument("--turns", type=int, default=3, help="of each form, in turns")
    parser.add_argument("--programs", choices=SETS, default="first", help="of measure")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of these programs, of measure")
    given = parser.parse_args()
    if given.verb == "measure":
        programs = SETS[given.programs]
        unknown = [name for name in given.only or () if name not in programs.changes]
        if unknown:
            parser.error(f"--only: no {', '.join(unknown)} in {given.programs}")
        measure(given.folder, given.turns, programs, given.only or list(programs.changes))
    else:
        compare(given.folder, given.parameters or str(given.folder / "link-parameters.json"))


def measure(folder: Path, turns: int, programs: Programs, names: Sequence[str]) -> None:
    """Run each of the programs named in turns, then watch it before its change."""
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder.resolve() / "programs"
    source = str(HERE / programs.source)
    flags = ["-O3", "-std=c++17", "-arch=native", "-cudart", "static"]
    subprocess.run(["nvcc", *flags, "-o", str(binary), source], check=True)
    with (folder / "steps.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["program", "turn", "form", "seconds", "checksum"])
        for name in names:
            for turn in range(turns):
                for form in programs.forms(name):
                    if name in programs.forked:
                        said = forked(programs.functions, name, form)
                    else:
                        said = run(programs.command(name, form, binary))
                    rows.writerow([name, turn, form, *step_of(said)])
                    file.flush()
            out = str(folder / "watches" / name)
            watch = ["-m", "lanescope", "advise", "--out", out, "--"]
            command = programs.command(name, "before", binary)
            print(run([sys.executable, *watch, *command])[-2000:], flush=True)
    binary.unlink()


def forked(functions: dict[str, Callable[[bool], Iterator[float]]], name: str, form: str) -> str:
    """Return what a program of PyTorch prints in a process of its own, forked off this one.

    To import PyTorch takes longer than the program: this process does it once, and leaves the GPU
    alone, so that each program starts with a fresh one.
    """
    import torch  # noqa: F401

    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=send_outcome, args=(sender, functions, name, form))
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


def send_outcome(
    sender: Connection,
    functions: dict[str, Callable[[bool], Iterator[float]]],
    name: str,
    form: str,
) -> None:
    from lanescope.examples.loops import outcome

    sender.send(outcome(functions, name, form == "after", STEPS))


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
    rows = measured(folder)
    steps, printed = median_steps(rows), checksums(rows)
    first = SETS["first"]
    programs = next((one for one in SETS.values() if steps.keys() & one.changes), first)
    print("program: ms a step before, after, gain; advised first; followed; predicted, error")
    changing = sum(map(bool, programs.changes.values()))
    within = held = leading = spared = 0
    for name, accepted in programs.changes.items():
        forms = steps.get(name, {})
        if any(form not in forms for form in programs.forms(name)):
            print(f"{name}: not measured")
            continue
        if len(printed[name]) > 1:
            print(
                f"{name}: checksums differ ({', '.join(printed[name])}), so it counts for nothing"
            )
            continue
        advice = advised(folder / "watches" / name, parameters)
        if advice is None:
            print(f"{name}: advise failed, see above")
        elif accepted:
            line, close, inside = compared(accepted, forms["before"], forms["after"], advice)
            print(f"{name}: {line}")
            within += close
            held += inside
            leading += leads(accepted, advice)
        else:
            line, right = unchanged(forms["before"], advice)
            if name in programs.tempting:
                line += f"; {tempted(programs.tempting[name], forms)}"
            print(f"{name}: {line}")
            spared += right
    print(f"\n{within} of {changing} gains within 25 % of the prediction or 2 % of a step")
    print(f"{held} of {changing} gains within the interval of the prediction")
    print(f"{leading} of {changing} changes are the first advice")
    differing = unsteady(rows, [name for name, accepted in programs.changes.items() if accepted])
    if differing:
        print(
            f"{len(differing)} of {changing} gains differ from turn to turn by more than a "
            f"prediction may be off both ways: {', '.join(differing)}"
        )
    if changing < len(programs.changes):
        rest = len(programs.changes) - changing
        print(f"{spared} of {rest} programs in which nothing is to be gained got no advice")


def compared(
    accepted: tuple[set[str], ...], before: float, after: float, advice: list[dict[str, object]]
) -> tuple[str, bool, bool]:
    """Return a program's line, whether its gain is close to the prediction, and in its interval.

    Of the accepted sets of steps the one counts that stands first among the advice.
    """
    gain, ms = before - after, 1e3
    line = f"{before * ms:.3f}, {after * ms:.3f}, {gain * ms:+.3f}"
    first = first_worth(advice)
    line += f"; {first['kind'] if first else 'nothing'}"
    followed, same = following(accepted, advice)
    if not same:
        names = " or ".join("+".join(sorted(steps)) for steps in accepted)
        return f"{line}; {names}: not among the advice", False, False
    line += f"; {'+'.join(sorted(followed))}"
    one = same[0]
    same = [other for other in same if other["predicted_run_gain_seconds"]]
    predicted, low, high = (
        sum(other["predicted_run_gain_seconds"][end] for other in same) / STEPS
        for end in ("value", "low", "high")
    )
    close = abs(predicted - gain) <= tolerance(gain, before)
    note = "" if one["worth"] else f" (not worth it: {one['why_not']})"
    line += f"; {predicted * ms:+.3f}, {predicted / gain - 1:+.1%}{'' if close else ', off'}{note}"
    return line, close, low <= gain <= high


def tolerance(gain: float, before: float) -> float:
    """Return by how much a prediction may be off: 25 % of the gain, or 2 % of a step."""
    return max(0.25 * abs(gain), 0.02 * before)


def unsteady(rows: list[dict[str, str]], names: Sequence[str]) -> list[str]:
    """Return the programs whose gains in two turns no prediction could be close to at once."""
    steps: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        steps.setdefault((row["program"], row["turn"]), {})[row["form"]] = float(row["seconds"])
    gains: dict[str, list[float]] = {}
    for (name, _), forms in steps.items():
        if {"before", "after"} <= forms.keys():
            gains.setdefault(name, []).append(forms["before"] - forms["after"])
    medians = median_steps(rows)
    return [
        name
        for name in names
        if name in gains
        and max(gains[name]) - min(gains[name])
        > 2 * tolerance(median(gains[name]), medians[name]["before"])
    ]


def first_worth(advice: list[dict[str, object]]) -> dict[str, object] | None:
    """Return the first advice that is worth it."""
    return next((one for one in advice if one["worth"]), None)


def leads(accepted: tuple[set[str], ...], advice: list[dict[str, object]]) -> bool:
    """Return whether the first advice does what was followed."""
    first = first_worth(advice)
    return first is not None and bool(following(accepted, [first])[1])


def following(
    accepted: tuple[set[str], ...], advice: list[dict[str, object]]
) -> tuple[set[str], list[dict[str, object]]]:
    """Return of the accepted sets of steps the one that is advised first, and its advice.

    What is worth it goes before what is not. An empty list where none of them is advised.
    """
    found = [(steps, same) for steps in accepted if (same := doing(steps, advice))]

    def place(one: tuple[set[str], list[dict[str, object]]]) -> tuple[bool, int]:
        return not one[1][0]["worth"], advice.index(one[1][0])

    return min(found, key=place, default=(set(), []))


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
    first = first_worth(advice)
    if first is None:
        return f"{line}; nothing advised", True
    gains = first["predicted_run_gain_seconds"]
    predicted = f" for {gains['value'] / STEPS * 1e3:+.3f}" if gains else ""
    return f"{line}; {first['kind']}{predicted}, wrong", False


def tempted(steps: set[str], forms: dict[str, float]) -> str:
    """Return what a change that should not be advised gained, or lost."""
    gain = forms["before"] - forms["after"]
    return f"{'+'.join(sorted(steps))} takes {forms['after'] * 1e3:.3f}, {gain * 1e3:+.3f}"


def measured(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the runs that ended as they should."""
    with (folder / "steps.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["seconds"]]


def checksums(rows: list[dict[str, str]]) -> dict[str, list[str]]:
    """Return the different checksums that each program printed, over its forms and turns."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["program"], set()).add(row["checksum"])
    return {name: sorted(printed) for name, printed in found.items()}


def median_steps(rows: list[dict[str, str]]) -> dict[str, dict[str, float]]:
    """Return the median seconds of a step over the turns, by program and form."""
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
