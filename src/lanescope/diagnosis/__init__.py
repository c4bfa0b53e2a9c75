"""What is wrong with a machine, told from a whole run and not from one path."""

from lanescope.diagnosis.diagnosis import Diagnosis
from lanescope.diagnosis.rules import diagnose

__all__ = ["Diagnosis", "diagnose"]
