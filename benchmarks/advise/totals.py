"""Adds up what ``closed_loop.py compare`` said of the sets of programs.

::

    python benchmarks/advise/totals.py benchmarks/results/h100-x1/advise

Of the blind sets as they were measured (``compared.txt`` of each), of the two newest of them, and
of all sets by the present version (``all-sets.txt``, without watches that were made anew): gains
within 25 % or 2 % of a step, gains within the interval, changes that are the first advice, and
programs in which nothing is to be gained. Then how many of the gains differ between their own turns
by more than a prediction may be off, and how many of these and of the others are close.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

#: In the order in which they were made.
BLIND = (
    *("unseen", "later", "blind", "fresh", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth"),
)
COUNTS = (
    "gains within 25 %",
    "gains within the interval",
    "changes are the first advice",
    "programs in which nothing is to be gained got no advice",
)
Counts = dict[str, tuple[int, int]]


def counts(text: str) -> Counts:
    """Return how many of how many, added up over all sets in a text."""
    found: dict[str, tuple[int, int]] = {}
    for what in COUNTS:
        pairs = re.findall(rf"^(\d+) of (\d+) {re.escape(what)}", text, re.M)
        found[what] = sum(int(a) for a, _ in pairs), sum(int(b) for _, b in pairs)
    return found


def by_steadiness(sets: list[str]) -> Counter[tuple[bool, bool]]:
    """Count changes by whether their turns agree, and whether their prediction is close."""
    found: Counter[tuple[bool, bool]] = Counter()
    for text in sets:
        named = re.search(r"differ from turn to turn .*: (.+)$", text, re.M)
        unsteady = set(named[1].split(", ")) if named else set()
        for name, line in re.findall(r"^([\w-]+): ([\d.]+, [\d.]+, [+-][\d.]+; .+)$", text, re.M):
            close = ", off" not in line and "not among the advice" not in line
            found[name in unsteady, close] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with a folder for each set, and all-sets.txt")
    folder = parser.parse_args().folder
    blind = [(folder / name / "compared.txt").read_text() for name in BLIND]
    parts = re.split(r"^\$ .*/", (folder / "all-sets.txt").read_text(), flags=re.M)[1:]
    present = [part for part in parts if not part.split("\n", 1)[0].endswith("-contents")]
    columns = [counts("\n".join(texts)) for texts in (blind, blind[-2:], present)]
    print("as they were measured; the two newest; present version, all sets")
    for what in COUNTS:
        print(f"{'; '.join(f'{a} of {b}' for a, b in (one[what] for one in columns))}: {what}")
    steady = by_steadiness(present)
    for is_unsteady, words in ((True, "differ from turn to turn"), (False, "do not")):
        close = steady[is_unsteady, True]
        print(f"{close} of {close + steady[is_unsteady, False]} gains that {words} are close")


if __name__ == "__main__":
    main()
