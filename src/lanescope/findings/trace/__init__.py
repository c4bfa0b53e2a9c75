"""What could be faster, from a timeline: one file for each kind of finding."""

from lanescope.document.finding import Finding
from lanescope.findings.trace.evaluate import find

__all__ = ["Finding", "find"]
