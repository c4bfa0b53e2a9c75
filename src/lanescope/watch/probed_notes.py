"""What is to be said of a probe beside its numbers."""

from __future__ import annotations

from lanescope.units.sizes import binary_text
from lanescope.watch.probed_way import ProbedWay


def probe_notes(ways: tuple[ProbedWay, ...], *, counted: bool) -> tuple[str, ...]:
    """Return sentences on what probing cost, and on what its numbers are.

    Parameters
    ----------
    counted
        Whether counters watched, too: they count the probe's own bytes.
    """
    notes = []
    for gpu in dict.fromkeys(way.gpu for way in ways):
        own = [way for way in ways if way.gpu == gpu]
        moved = " and ".join(f"{binary_text(w.probe_bytes)} {w.direction}" for w in own)
        busy = max((w.probe_busy_share or 0.0 for w in own), default=0.0)
        notes.append(
            f"The probe of g{gpu} itself moved {moved}, which occupied the link for "
            f"{100 * busy:.2g} % of the time in a direction"
            + ("; counters count that, too." if counted else ".")
        )
    if ways:
        notes.append(
            "What a probe says of others is an estimate from how much longer its copies took "
            "than the fastest quarter of them: a program that never rests looks idle."
        )
    return tuple(notes)
