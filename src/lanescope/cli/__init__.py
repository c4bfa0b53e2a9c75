"""The command line. Nothing outside this package prints."""

from lanescope.cli.app import main

__all__ = ["main"]
