"""Each direction of each link as a probe has seen it, and what probing cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.units.bandwidth import bandwidth_gbs
from lanescope.watch.probe import DELAY_BYTES, PROBE_WAYS, Probe
from lanescope.watch.probed import Episode, Sign, episodes, shares_and_weights, undisturbed


@dataclass(frozen=True, slots=True)
class ProbedWay:
    """One direction of one GPU's link as a probe has seen it; None is unknown.

    Attributes
    ----------
    direction
        ``h2d`` or ``d2h``.
    period_ns
        From round to round, as asked for; 0 is without a pause.
    undisturbed_gbs, undisturbed_delay_seconds
        Bandwidth of a chunk, and time of 4 bytes, while nobody else uses the link.
    used_by_others
        Estimated share of the link that others used, over all of the probe.
    episodes
        When copies were held up.
    probe_bytes
        What the probe itself moved.
    probe_busy_share
        Share of the probe's time in which its own copies occupied the link.
    """

    gpu: int
    direction: str
    chunk_bytes: int
    period_ns: int
    records: int
    undisturbed_gbs: float | None
    undisturbed_delay_seconds: float | None
    used_by_others: float | None
    episodes: tuple[Episode, ...]
    probe_bytes: int
    probe_busy_share: float | None

    def seconds_of(self, sign: Sign) -> float:
        """Return how long the episodes with a sign lasted, in seconds."""
        return sum(e.end_ns - e.start_ns for e in self.episodes if e.sign is sign) * 1e-9

    def count_of(self, sign: Sign) -> int:
        """Return how many episodes have a sign."""
        return sum(e.sign is sign for e in self.episodes)


def probed_ways(probes: tuple[Probe, ...]) -> tuple[ProbedWay, ...]:
    """Return what each probe has seen of each direction that it has copied in."""
    ways = (_way(probe, i) for probe in probes for i in range(len(PROBE_WAYS)))
    return tuple(way for way in ways if way.records)


def _way(probe: Probe, direction: int) -> ProbedWay:
    own = probe.one_way(direction)
    rest = undisturbed(own)
    usual, delay = rest.copy_ns, rest.delay_ns
    shares, weights = shares_and_weights(own)
    span = int(own.end_ns[-1] - own.begin_ns[0]) if len(own) else 0
    return ProbedWay(
        gpu=probe.gpu,
        direction=PROBE_WAYS[direction],
        chunk_bytes=probe.chunk_bytes,
        period_ns=probe.period_ns,
        records=len(own),
        undisturbed_gbs=None if usual is None else bandwidth_gbs(own.chunk_bytes, usual * 1e-9),
        undisturbed_delay_seconds=None if delay is None else delay * 1e-9,
        used_by_others=None if usual is None else float(np.average(shares, weights=weights)),
        episodes=episodes(probe, direction),
        probe_bytes=len(own) * (own.chunk_bytes + DELAY_BYTES),
        probe_busy_share=None if usual is None else min(len(own) * usual / span, 1.0),
    )
