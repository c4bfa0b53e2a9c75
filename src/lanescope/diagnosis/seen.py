"""One copy of a run, as the rules look at it."""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.experiment import Copy, Experiment
from lanescope.experiment.limit import Limit
from lanescope.measurement.result import LinkEvidence

#: From, to, and whether the GPU that does the copy reads it from elsewhere.
Way = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class Seen:
    """A copy that counts, as its experiment saw it.

    Attributes
    ----------
    gbs
        Measured, in GB/s.
    limit
        Its ceiling in this experiment.
    staged
        Whether the driver took it through host memory.
    links
        Link states seen under the load of its experiment.
    """

    experiment: Experiment
    copy: Copy
    gbs: float
    limit: Limit
    staged: bool
    links: tuple[LinkEvidence, ...] = ()

    @property
    def over_host(self) -> bool:
        """Whether it has an end in host memory."""
        return self.copy.source.is_host or self.copy.destination.is_host

    @property
    def down(self) -> bool:
        """Whether it goes from the host to a GPU."""
        return self.copy.source.is_host

    @property
    def gpu(self) -> str:
        """The GPU of a copy from or to the host."""
        return (self.copy.destination if self.down else self.copy.source).part

    @property
    def host(self) -> str:
        """The node of a copy from or to the host."""
        return (self.copy.source if self.down else self.copy.destination).part

    @property
    def ends(self) -> tuple[str, str]:
        """Both parts, in the order of the machine's numbers."""
        first, second = sorted(
            (self.copy.source.part, self.copy.destination.part), key=lambda p: (len(p), p)
        )
        return first, second

    @property
    def text(self) -> str:
        """The measurement in a line, for evidence."""
        known = self.limit.gbs is not None
        limit = f", limit {self.limit.gbs:.1f} GB/s ({self.limit.reason})" if known else ""
        return f"{self.experiment.name}: {self.copy.path} {self.gbs:.1f} GB/s{limit}"

    @property
    def way(self) -> Way:
        """What this copy has in common with others of the same path."""
        source, destination = self.copy.source.part, self.copy.destination.part
        # Copies may come to tell which GPU does them; today that is the source, if it is one.
        return source, destination, self.copy.is_read
