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
    try:
        run()
    except SystemExit as end:
        code = end.code
    interruption.leave(code if isinstance(code, int) else 0)
