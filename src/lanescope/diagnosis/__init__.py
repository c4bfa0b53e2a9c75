"""What is wrong with a machine, told from a whole run and not from one path."""

from lanescope.diagnosis.rules import diagnose
from lanescope.document.finding import Finding

__all__ = ["Finding", "diagnose"]
