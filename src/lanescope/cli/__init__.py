"""The command line. Nothing outside this package prints."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line and exit."""
    from lanescope import interruption

    _hold_closed_streams()  # before anything is opened
    interruption.begin()  # before anything is loaded that takes its time
    from lanescope.cli.app import main as run

    interruption.verbs_are_loaded()
    code: object = None
    try:
        try:
            run()
        except SystemExit as end:
            code = end.code
        interruption.leave(code if isinstance(code, int) else 0)
    except (KeyboardInterrupt, SystemExit) as late:  # when all was done, or nearly
        number = late.code if isinstance(late, SystemExit) else 130
        interruption.leave(next(c for c in (code, number, 0) if isinstance(c, int)))


def _hold_closed_streams() -> None:
    """Hold the numbers of standard streams that our caller has closed, here and in programs.

    The next file that is opened, a run's own say, would get such a number, and with it all that
    anybody prints. To read and to write there fails as it does on what is closed.
    """
    import os

    for number, fails in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            try:
                os.set_inheritable(os.open(os.devnull, fails), True)  # the least number is free
            except OSError:  # no /dev
                return
