"""Runs the command line as ``python -m lanescope``."""

from lanescope.cli import main

main()
