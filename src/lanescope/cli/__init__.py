"""The command line. Nothing outside this package prints."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line and exit."""
    from lanescope import interruption

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
