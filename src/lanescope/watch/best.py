"""Which of several counters of one GPU and link are told."""

from __future__ import annotations

from lanescope.watch.timeline import PCIE, Counters, Timeline

#: Of several counters of one GPU the first of these is told: PM sampling has the finest
#: samples, and the driver's throughput is a mean over 20 ms.
PREFERRED = ("pm", "counters", "throughput")


def best_counters(timeline: Timeline, gpu: int, link: str = PCIE) -> Counters | None:
    """Return the counters of a GPU's link that are told: the preferred that know anything."""
    own = [c for c in timeline.over(link) if c.gpu == gpu]
    order = {source: i for i, source in enumerate(PREFERRED)}
    own.sort(key=lambda c: (not c.known.any(), order.get(c.source, len(order)), c.interval_ns))
    return own[0] if own else None
