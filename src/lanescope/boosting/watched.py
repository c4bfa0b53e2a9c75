"""A watched program whose copies are carried, too: ``lanescope watch --boost``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from lanescope.argument_names import argument
from lanescope.boosting.running import BoostOptions, run_boosted
from lanescope.boosting.tally import as_dict, lines_of
from lanescope.errors import InputError
from lanescope.trace.run import BoostOutcome, WatchRun, store_boost
from lanescope.watching.launcher import Outcome
from lanescope.watching.waiting import Waited

#: As `lanescope boost` has them without options.
OPTIONS = BoostOptions()


class BoostedLaunch:
    """A program that is run as a watch has it run, boosted besides.

    The boost stands behind what records calls: that sees the program's copies, each once, with the
    time that it took boosted.

    Parameters
    ----------
    launched
        How it would be run without.

    Raises
    ------
    InputError
        If nothing is run.
    """

    def __init__(self, launched: Waited) -> None:
        if not launched.traceable:
            raise InputError(f"{argument.boost} is for a program that is run; name one")
        self.program = launched.program
        self.traceable = launched.traceable
        self.notes = launched.notes
        self._boost: BoostOutcome | None = None

    def wait(self, environment: Mapping[str, str]) -> Outcome:
        """Run it until it ends, and note what became of its copies."""
        done = run_boosted(self.program, environment, OPTIONS)
        if done.tally is None:
            self._boost = BoostOutcome((done.unable or "Nothing was carried.",))
        else:
            least = OPTIONS.from_bytes
            lines = lines_of(done.tally, from_bytes=least, dry_run=False)
            numbers = as_dict(done.tally, from_bytes=least, dry_run=False)
            self._boost = BoostOutcome(tuple(lines), numbers)
        return done.outcome

    def add_to(self, run: WatchRun) -> WatchRun:
        """Store what became of its copies with a watch of it, and return the watch with that.

        Raises
        ------
        InputError
            If it cannot be stored.
        """
        if self._boost is None:
            return run
        if run.folder is not None:
            store_boost(run.folder, self._boost)
        return dataclasses.replace(run, boost=self._boost)
