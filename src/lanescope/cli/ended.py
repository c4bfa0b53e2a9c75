"""How a verb ends that runs somebody else's program."""

from __future__ import annotations


class ProgramEnded(Exception):  # noqa: N818 - no error: how its program ended
    """Ends lanescope with the exit code of a program that it ran."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
