"""What a boost gains a program, measured: it is run again and again, boosted and not."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lanescope.boosting.running import BoostOptions, boost_library, boost_variables, tally_folder
from lanescope.errors import InputError
from lanescope.watching.launcher import Captured, Stopped


@dataclass(frozen=True, slots=True)
class Turns:
    """How long a program took.

    Attributes
    ----------
    plain, boosted
        Seconds, a number for each turn.
    """

    plain: tuple[float, ...] = ()
    boosted: tuple[float, ...] = ()

    def text(self) -> str:
        """Return a sentence; empty where there was no turn."""
        if not self.plain:
            return ""
        count = "1 turn" if len(self.plain) == 1 else f"{len(self.plain)} turns"
        gain = statistics.median(self.plain) - statistics.median(self.boosted)
        ended = f"{abs(gain):.3g} s {'earlier' if gain >= 0 else 'later'}"
        return (
            f"In {count} with and without, the program ended {ended} boosted: "
            f"{_spread(self.boosted)} in place of {_spread(self.plain)}; medians, least to most."
        )


def take_turns(
    program: Sequence[str], environment: Mapping[str, str], options: BoostOptions, count: int
) -> Turns:
    """Run a program so often with and without a boost, in turns.

    What it prints is dropped, and it has no input.

    Parameters
    ----------
    environment
        What it has without a boost.

    Returns
    -------
    Turns
        Those that were done, where somebody asked for the end.

    Raises
    ------
    InputError
        If it ends with an error, or there is no place for temporary files.
    """
    done = Turns()
    stopped = Stopped()
    with stopped.listening():
        for number in range(count):
            seconds: dict[bool, float] = {}
            for boosts in (False, True) if number % 2 == 0 else (True, False):
                lasted = _seconds(program, environment, options if boosts else None, stopped)
                if lasted is None:
                    return done
                seconds[boosts] = lasted
            done = Turns((*done.plain, seconds[False]), (*done.boosted, seconds[True]))
    return done


def _seconds(
    program: Sequence[str],
    environment: Mapping[str, str],
    options: BoostOptions | None,
    stopped: Stopped,
) -> float | None:
    """Run the program once; None where somebody asked for the end."""
    if stopped.signal is not None:
        return None
    run = Captured(tuple(program), stopped)
    library = None if options is None else boost_library(batch=options.batch)
    if options is None or library is None:
        run.wait(environment)
    else:
        try:
            with tally_folder() as folder:
                run.wait({**environment, **boost_variables(library, environment, folder, options)})
        except OSError as error:
            raise InputError(
                f"--turns has no place for temporary files: {error.strerror}; name one by TMPDIR"
            ) from error
    if stopped.signal is not None:
        return None
    if run.exit_code or run.seconds is None:
        raise InputError(
            f"{program[0]} ended with {run.exit_code} when it was run again for --turns: what a "
            "boost gains can be measured only where it can run again and again"
        )
    return run.seconds


def _spread(seconds: Sequence[float]) -> str:
    middle = statistics.median(seconds)
    return f"{middle:.3g} s ({min(seconds):.3g} to {max(seconds):.3g})"
