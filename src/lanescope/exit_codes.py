"""What lanescope's exit code tells; scripts act on it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of every verb but those that end as the program does that they run."""

    OK = 0
    """Nothing is wrong with what was measured."""
    SLOW = 1
    """A path is slower than it should be, an output is wrong, or a condition does not hold."""
    INPUT = 2
    """An argument, a file or a folder cannot be used; or the output cannot be written."""
    NOT_MEASURED = 3
    """With ``--strict``: something could not be measured."""
    NOT_AS_EXPECTED = 4
    """The machine lacks something that ``--expect``, ``--expect-gpus`` or the request needs."""
    BUSY = 5
    """With ``--strict``: something was not measured only because other processes use it."""
    FAULT = 70
    """A fault of lanescope's own."""
    INTERRUPTED = 130
    """Ended by Ctrl-C (SIGINT)."""
    TERMINATED = 143
    """Ended by SIGTERM."""
