"""What is wrong with a machine, from all results of a run and not from one path."""

from lanescope.document.finding import Finding
from lanescope.findings.machine.rules import diagnose

__all__ = ["Finding", "diagnose"]
