"""A device whose speeds and link are known, for deciders to find out: no clock, no chance."""

from __future__ import annotations

from dataclasses import dataclass, field

from lanescope.compression.deciding import Decision, Sampled, Transfer, TransferOutcome
from lanescope.compression.rule import (
    CODECS_BY_DTYPE,
    CodecCost,
    LinkCost,
    compressed_seconds,
    raw_seconds,
)

MIB = 1 << 20
NVLINK, PCIE = LinkCost(395.0, 8e-6), LinkCost(55.5, 10e-6)
#: What blocks that cannot be made smaller add.
EXPANSION = 1.0002


@dataclass
class Simulated:
    """Sends what a decider says, and tells it what that took.

    `ratios` are of codecs by name; those not there make nothing smaller. `late` outcomes are told
    only when so many transfers more have been decided about. With `looks` blocks of arrays are
    looked at where the decider wants that; it has what they become before the next transfer.
    """

    link: LinkCost
    cost: CodecCost
    ratios: dict[str, float] = field(default_factory=dict)
    jitter: float = 0.0
    late: int = 0
    looks: bool = False
    looked: int = 0
    seconds: float = 0.0
    raw_seconds: float = 0.0
    sent: int = 0
    compressed: int = 0
    _untold: list[tuple[Transfer, Decision, TransferOutcome]] = field(default_factory=list)
    _sample: tuple[Transfer, list[Sampled]] | None = None

    def outcome(self, transfer: Transfer, decision: Decision) -> TransferOutcome:
        ratio = self.ratios.get(decision.codec, 1 / EXPANSION)
        if decision.compress:
            seconds = compressed_seconds(transfer.bytes, ratio, self.cost, self.link)
            wire = round(transfer.bytes / ratio)
        else:
            seconds, wire = raw_seconds(transfer.bytes, self.link), transfer.bytes
        # evenly spread over -jitter to jitter, without chance: multiples of the golden ratio
        spread = 2 * ((self.sent * 0.6180339887) % 1) - 1
        seconds *= 1 + self.jitter * spread
        return TransferOutcome(seconds, transfer.bytes, wire, decision.compress)

    def look(self, decider, transfer: Transfer) -> None:
        if self._sample is not None:
            decider.take_sample(*self._sample)
            self._sample = None
        if decider.wants_sample(transfer):
            self.looked += 1
            ratios = dict.fromkeys(CODECS_BY_DTYPE[transfer.dtype], 1.0) | self.ratios
            self._sample = transfer, [Sampled(name, 1, 1 / one) for name, one in ratios.items()]

    def send(self, decider, transfer: Transfer, times: int = 1) -> list[Decision]:
        made = []
        for _ in range(times):
            if self.looks:
                self.look(decider, transfer)
            decision = decider.decide(transfer)
            outcome = self.outcome(transfer, decision)
            self._untold.append((transfer, decision, outcome))
            if len(self._untold) > self.late:
                decider.learn(*self._untold.pop(0))
            made.append(decision)
            self.sent += 1
            self.compressed += decision.compress
            self.seconds += outcome.seconds
            self.raw_seconds += raw_seconds(transfer.bytes, self.link)
        return made

    @property
    def overhead(self) -> float:
        """Time beyond that of the same transfers as they are, as a share of it."""
        return self.seconds / self.raw_seconds - 1
