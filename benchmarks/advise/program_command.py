"""The command line of a file of programs for the closed loop of advise."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator


def run_named(about: str, programs: dict[str, Callable[[bool], Iterator[float]]]) -> None:
    """Run the program named on the command line and print its line; `about` heads the help."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("name", choices=programs)
    parser.add_argument("--form", choices=["before", "after"], default="before")
    parser.add_argument("--steps", type=int, default=60)
    given = parser.parse_args()

    from lanescope.errors import InputError
    from lanescope.examples.loops import WARMING, outcome

    if given.steps <= WARMING:
        parser.error(f"--steps {given.steps}: the first {WARMING} are not timed; give more")
    try:
        print(outcome(programs, given.name, given.form == "after", given.steps))
    except InputError as error:
        parser.error(str(error))
