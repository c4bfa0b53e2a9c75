"""What could be faster, told from a timeline: one file for each kind of finding."""

from lanescope.document.finding import Finding
from lanescope.watch.findings.find_all import find

__all__ = ["Finding", "find"]
