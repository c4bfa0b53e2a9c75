"""What the rule keeps of transfers of one tag, type and path: ratios, speeds, and what trials cost.

Ratios and speeds are means in which the newest transfer counts half.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lanescope.compression.link_costs import NEWEST

#: Of all time that went into transfers, trials and what proved a mistake may cost so much.
SHARE = 0.005
#: Decisions from one trial to the next; fewer at first after a loss, which may be an accident.
EVERY = 64
FIRST_PATIENCE = 8


@dataclass(slots=True)
class CodecKept:
    """What a codec does to such arrays.

    Attributes
    ----------
    wire_share
        Bytes that cross the link for each of the array: 1/r.
    slowness
        How many times as long it takes as expected of it at best; None: not measured.
    dimensionality
        Of GFC.
    """

    wire_share: float
    slowness: float | None = None
    dimensionality: int = 1

    @property
    def ratio(self) -> float:
        """Bytes of the array over those that cross the link."""
        return 1 / self.wire_share

    def take(self, wire_share: float, slowness: float | None, weight: float = NEWEST) -> None:
        """Take in one transfer, which counts `weight`, and all before it the rest.

        One that was held up by something else shall not make the codec look slow for long: at
        most twice as slow is believed, unless only this one counts.
        """
        self.wire_share += weight * (wire_share - self.wire_share)
        if slowness is not None:
            old = slowness if self.slowness is None else self.slowness
            if weight < 1:
                slowness = min(slowness, 2 * old)
            self.slowness = old + weight * (slowness - old)


@dataclass(slots=True)
class Off:
    """That a codec was measured to be a loss for arrays of some size class.

    Attributes
    ----------
    loss_seconds
        Of the last time.
    patience
        Decisions until it is tried again.
    """

    loss_seconds: float
    patience: int = FIRST_PATIENCE


@dataclass(slots=True)
class Kept:
    """All of one tag, type and path.

    Attributes
    ----------
    codecs
        Those that have been tried, by name.
    off
        By size class and codec; not there: on.
    decisions, last_trial
        How many there were of enough bytes, and which was the last trial.
    pending
        The codec of a trial whose outcome is still to come, or None.
    turn
        Trials so far, by which codecs take turns.
    spent_seconds, lost_seconds
        That transfers took, and that trials and mistakes took more than they had to.
    settled
        Whether somebody else chooses the codec, so that none has to be tried for that.
    """

    codecs: dict[str, CodecKept] = field(default_factory=dict)
    off: dict[tuple[int, str], Off] = field(default_factory=dict)
    decisions: int = 0
    last_trial: int = 0
    pending: str | None = None
    turn: int = 0
    spent_seconds: float = 0.0
    lost_seconds: float = 0.0
    settled: bool = False

    def may_try(self, cost_seconds: float, patience: int) -> bool:
        """Return whether a trial that costs so much is due, and can be afforded."""
        if self.waiting or self.decisions - self.last_trial < patience:
            return False
        return self.lost_seconds + max(cost_seconds, 0.0) <= SHARE * self.spent_seconds

    @property
    def waiting(self) -> bool:
        """Whether a trial's outcome is awaited; not for ever, as a transfer may have failed."""
        return self.pending is not None and self.decisions - self.last_trial < EVERY

    def begin_trial(self, codec: str | None) -> None:
        """Count a trial, of a codec or as it is."""
        self.last_trial, self.pending = self.decisions, codec
        self.turn += 1

    def end_trial(self, codec: str) -> None:
        """Await the outcome no more if it was that codec's.

        While nothing is known only trials compress: then any is it, also one for which somebody
        else put another codec in its place.
        """
        if self.pending == codec or not self.codecs:
            self.pending = None

    def switch(self, size_class: int, codec: str, loss_seconds: float, *, clear_gain: bool) -> None:
        """Turn a codec off for a size class after a loss, on after a clear gain."""
        key = (size_class, codec)
        if loss_seconds > 0:
            off = self.off.get(key)
            if off is None:
                self.off[key] = Off(loss_seconds)
            else:
                off.loss_seconds, off.patience = loss_seconds, min(2 * off.patience, EVERY)
            self.last_trial = self.decisions
        elif clear_gain:
            self.off.pop(key, None)
