"""How wide the interval of a predicted gain has to be, by the gains that were measured.

``python benchmarks/advise/intervals.py FILE`` reads what ``closed_loop.py compare`` printed of
several sets, such as all-sets.txt. Errors are taken to be of two kinds that know nothing of each
other: a share of the gain predicted, and a share of the round, which differs from run to run. The
shares are those with the least interval score (Gneiting and Raftery 2007) for 95 %. With each set
left out in turn the shares of the others tell how many of its gains are within. Programs whose
kernels would be rewritten are left out, as is what was not among the advice.
"""

from __future__ import annotations

import re
import sys
from math import hypot
from pathlib import Path
from typing import NamedTuple

_SET = re.compile(r"^\$ .*/advise/(\w+)")
_NUMBER = r"([-+]?[\d.]+)"
_LINE = re.compile(
    rf"^([\w-]+): {_NUMBER}, {_NUMBER}, {_NUMBER}; \S+; (?!.*mapped)\S+; {_NUMBER},", re.M
)
#: An interval of 95 % pays this for what it misses, in its score.
_MISSED = 2 / 0.05


class Gain(NamedTuple):
    """Milliseconds of a step."""

    of_set: str
    program: str
    before: float
    measured: float
    predicted: float


def main() -> None:
    """Print the shares for all sets, and what is held with each set left out."""
    gains = list(read(Path(sys.argv[1]).read_text()))
    shares = best(gains)
    print(f"{len(gains)} gains: {shares[0]:.2f} of the gain and {shares[1]:.3f} of a round")
    print(f"within: {count(gains, shares)}; {missed(gains, shares)} not")
    held = 0
    for left_out in dict.fromkeys(one.of_set for one in gains):
        mine = [one for one in gains if one.of_set == left_out]
        of_others = best([one for one in gains if one.of_set != left_out])
        held += count(mine, of_others)
        print(
            f"without {left_out}: {of_others[0]:.2f} and {of_others[1]:.3f}; of its {len(mine)} "
            f"gains within: {count(mine, of_others)}"
        )
    print(f"within, each by the shares of the other sets: {held} of {len(gains)}")


def read(text: str) -> list[Gain]:
    """Return the gains of programs that were changed as advised; two watches of a set are of it."""
    gains, of_set = [], ""
    for line in text.splitlines():
        if found := _SET.match(line):
            of_set = found[1]
        if found := _LINE.match(line):
            before, _, measured, predicted = map(float, found.groups()[1:])
            gains.append(Gain(of_set, found[1], before, measured, predicted))
    return gains


def half_width(one: Gain, shares: tuple[float, float]) -> float:
    """Return half of the interval of a gain."""
    return hypot(shares[0] * one.predicted, shares[1] * one.before)


def count(gains: list[Gain], shares: tuple[float, float]) -> int:
    """Return how many gains are within."""
    return sum(abs(one.measured - one.predicted) <= half_width(one, shares) for one in gains)


def missed(gains: list[Gain], shares: tuple[float, float]) -> str:
    """Return the names of the others."""
    return ", ".join(one.program for one in gains if not count([one], shares))


def best(gains: list[Gain]) -> tuple[float, float]:
    """Return the shares with the least interval score, in shares of a round."""

    def score(shares: tuple[float, float]) -> float:
        total = 0.0
        for one in gains:
            half = half_width(one, shares)
            beyond = max(abs(one.measured - one.predicted) - half, 0.0)
            total += (2 * half + _MISSED * beyond) / one.before
        return total

    return min(((a / 100, b / 200) for a in range(0, 61) for b in range(0, 41)), key=score)


if __name__ == "__main__":
    main()
