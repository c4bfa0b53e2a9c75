"""The rule that decides, transfer by transfer, whether compressing pays on the link at hand.

It predicts both times (`lanescope.compression.costs`) and compresses where that takes at most
`MARGIN` of the time. What it predicts from is measured: the link by transfers as they are, ratio
and speed of a codec by compressed ones. It turns itself off where a compressed transfer took
longer than the same bytes as they are, and on again by trials only. Trials may cost `SHARE` of the
time that went into such transfers, but for the first one of each kind.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import inf

from lanescope.calls import checked
from lanescope.compression.candidates import CODECS_BY_DTYPE, takes
from lanescope.compression.costs import (
    MARGIN,
    CodecCost,
    LinkCost,
    compressed_seconds,
    slowness,
)
from lanescope.compression.deciding import Decision, Outcome, Transfer
from lanescope.compression.kept import EVERY, CodecKept, Kept
from lanescope.compression.link_costs import NEWEST, LinkModel, RawTimes, size_class

#: What the kernels may reach at best on a whole GPU; that they are slower is learnt, but what
#: is never tried because it is taken to be slow would never be known to be fast.
AT_BEST = CodecCost(compress_gbs=1000, decompress_gbs=1500, start_seconds=20e-6)
_SLOWNESS = (0.5, 100.0)


@dataclass(frozen=True, slots=True)
class _Case:
    """One transfer, with what is known of it."""

    transfer: Transfer
    codecs: tuple[str, ...]
    kept: Kept
    link: LinkCost
    raw_seconds: float


class Rule:
    """A `Decider` that learns; for any number of threads. It looks at no clock.

    Parameters
    ----------
    links
        Knows some links beforehand, such as `HostLinks`; two transfers of each size (within a
        factor of two) over others go as they are first, and are timed.
    cost
        What codecs cost at best, and the slabs of the channel.
    codec
        The only codec to use, by name; None: those that suit the type of the values.
    """

    @checked  # and not all of it: what channels call for each transfer takes no longer
    def __init__(
        self,
        links: LinkModel | None = None,
        *,
        cost: CodecCost = AT_BEST,
        codec: str | None = None,
    ) -> None:
        self._raw = RawTimes(links)
        self._cost = cost
        self._codec = codec
        self._kept: dict[tuple[str, str, str], Kept] = {}
        self._slowness: dict[tuple[str, str, str], float] = {}
        self._warm: set[tuple[str, str, str]] = set()
        self._lock = threading.Lock()

    def decide(self, transfer: Transfer) -> Decision:
        """Return whether to compress a transfer that is about to begin."""
        with self._lock:
            return self._decide(transfer)

    def learn(self, transfer: Transfer, decision: Decision, outcome: Outcome) -> None:
        """Take in what became of a transfer."""
        with self._lock:
            if transfer.bytes <= 0 or outcome.seconds <= 0:
                return
            kept = self._kept_of(transfer)
            kept.spent_seconds += outcome.seconds
            if outcome.compressed:
                self._learn_compressed(transfer, decision, outcome, kept)
            else:
                self._learn_raw(transfer, decision, outcome, kept)

    def _decide(self, transfer: Transfer) -> Decision:
        codecs = (self._codec,) if self._codec else CODECS_BY_DTYPE.get(transfer.dtype, ())
        if not codecs or not takes(codecs[0], transfer.dtype):
            return _not_compressed(f"no codec takes {transfer.dtype}")
        expected = self._raw.seconds(transfer.path, transfer.bytes)
        link = self._raw.link(transfer.path, transfer.bytes)
        if expected is None or link is None:
            return _nothing_known()
        ideal = compressed_seconds(transfer.bytes, inf, self._cost, link)
        if ideal >= MARGIN * expected:
            return _not_compressed(
                f"too small for this link: compressing alone takes {_text(ideal)}, as it is "
                f"{_text(expected)}",
                expected,
            )
        case = _Case(transfer, codecs, self._kept_of(transfer), link, expected)
        case.kept.decisions += 1
        return self._first_trial(case) or self._weigh(case)

    def _first_trial(self, case: _Case) -> Decision | None:
        """Try each codec that nothing is known of; the first one whatever it costs."""
        kept = case.kept
        untried = [] if kept.settled else [c for c in case.codecs if c not in kept.codecs]
        if not untried:
            return None
        if kept.waiting and kept.codecs:
            return None  # the best of those that are known meanwhile
        if kept.waiting:
            return _not_compressed("the outcome of a trial is awaited", case.raw_seconds)
        codec, patience = untried[0], 1
        cost = self._cost_of(case, codec)
        size = case.transfer.bytes
        loss = compressed_seconds(size, 1.0, cost, case.link) - case.raw_seconds
        if not kept.codecs:
            if compressed_seconds(size, inf, cost, case.link) < MARGIN * case.raw_seconds:
                loss = -inf  # the first one is tried, unless others told that it is hopeless
            patience = EVERY
        if loss > -inf and not kept.may_try(loss, patience):
            if kept.codecs:
                return None
            reason = f"other arrays told that {codec} is too slow for this link"
            return _not_compressed(reason, case.raw_seconds)
        kept.begin_trial(codec)
        return self._compressed(case, codec, "nothing is known of it yet, a trial")

    def _weigh(self, case: _Case) -> Decision:
        """Compare what codecs that are on lead to with the raw time; try those that are due."""
        kept, here = case.kept, size_class(case.transfer.bytes)
        if not kept.codecs:
            return _nothing_known()
        losses = {c: kept.off[here, c] for c in kept.codecs if (here, c) in kept.off}
        predicted = {c: self._seconds(case, c) for c in kept.codecs if c not in losses}
        best = min(predicted, key=predicted.__getitem__, default=None)
        if best is not None and predicted[best] < MARGIN * case.raw_seconds:
            gain = case.raw_seconds - predicted[best]
            if kept.may_try(gain, EVERY):
                kept.begin_trial(None)
                kept.lost_seconds += gain
                return self._raw_because(case, predicted[best], "sent as it is to time that again")
            ratio = kept.codecs[best].ratio
            return self._compressed(case, best, f"{best} makes it {ratio:.2f} times as small")
        if losses:
            turn = list(losses)[kept.turn % len(losses)]
            likely = self._seconds(case, turn) - case.raw_seconds
            if kept.may_try(min(losses[turn].loss_seconds, likely), losses[turn].patience):
                kept.begin_trial(turn)
                return self._compressed(case, turn, "it was a loss the last time, a trial")
        if best is None:
            seconds = min(self._seconds(case, codec) for codec in losses)
            return self._raw_because(case, seconds, "compressed it took longer the last time")
        if kept.may_try(predicted[best] - case.raw_seconds, EVERY):
            turn = case.codecs[(kept.turn + 1) % len(case.codecs)]
            kept.begin_trial(turn)
            return self._compressed(case, turn, "it has not been tried for long, a trial")
        return self._raw_because(case, predicted[best], _too_little(best, kept.codecs[best].ratio))

    def _learn_compressed(
        self, transfer: Transfer, decision: Decision, outcome: Outcome, kept: Kept
    ) -> None:
        kept.end_trial(decision.codec)
        size, share = transfer.bytes, max(outcome.wire_bytes, 1) / transfer.bytes
        expected = self._raw.seconds(transfer.path, size)
        loss = 0.0 if expected is None else outcome.seconds - expected
        if loss > 0 and expected is not None:
            # one that was held up by something else shall not forbid trials for ever; if it
            # was the codec, that is known the second time
            likely = max((decision.compressed_seconds or expected) - expected, 0.0)
            kept.lost_seconds += min(loss, likely + 2 * expected)
        key = (transfer.dtype, transfer.path, decision.codec)
        if key not in self._warm:
            self._warm.add(key)
            if loss > 0:  # kernels had to be loaded, memory to be taken: it tells nothing
                return
        times = self._slowness_of(transfer, share, outcome.seconds)
        if times is not None:
            old = self._slowness.get(key, times)
            self._slowness[key] = old + NEWEST * (min(times, 2 * old) - old)
        if self._codec is None and decision.codec not in CODECS_BY_DTYPE.get(transfer.dtype, ()):
            kept.settled = True  # somebody else chose it, and would again
        here = size_class(size)
        known = kept.codecs.get(decision.codec)
        if known is None:
            kept.codecs[decision.codec] = CodecKept(share, times, decision.dimensionality)
        else:
            known.take(share, times, weight=1 if (here, decision.codec) in kept.off else NEWEST)
        if expected is not None:
            clear = outcome.seconds < MARGIN * expected
            kept.switch(here, decision.codec, loss, clear_gain=clear)

    def _slowness_of(self, transfer: Transfer, share: float, seconds: float) -> float | None:
        link = self._raw.link(transfer.path, transfer.bytes)
        if link is None:
            return None
        times = slowness(transfer.bytes, 1 / share, self._cost, link, seconds)
        return min(max(times, _SLOWNESS[0]), _SLOWNESS[1])

    def _learn_raw(
        self, transfer: Transfer, decision: Decision, outcome: Outcome, kept: Kept
    ) -> None:
        self._raw.take(transfer.path, transfer.bytes, outcome.seconds)
        if decision.compress:  # there was no room for it: the trial is over, and tells nothing
            kept.end_trial(decision.codec)
            kept.last_trial = kept.decisions

    def _kept_of(self, transfer: Transfer) -> Kept:
        return self._kept.setdefault((transfer.tag, transfer.dtype, transfer.path), Kept())

    def _seconds(self, case: _Case, codec: str) -> float:
        ratio = case.kept.codecs[codec].ratio
        return compressed_seconds(case.transfer.bytes, ratio, self._cost_of(case, codec), case.link)

    def _cost_of(self, case: _Case, codec: str) -> CodecCost:
        """Return what a codec costs as these arrays told, or else others of the type and path."""
        known = case.kept.codecs.get(codec)
        times = None if known is None else known.slowness
        if times is None:
            times = self._slowness.get((case.transfer.dtype, case.transfer.path, codec), 1.0)
        return self._cost.slower(times)

    def _compressed(self, case: _Case, codec: str, reason: str) -> Decision:
        known = case.kept.codecs.get(codec)
        seconds = None if known is None else self._seconds(case, codec)
        if seconds is not None:
            reason += f": {_text(seconds)} instead of {_text(case.raw_seconds)} predicted"
        dimensionality = 1 if known is None else known.dimensionality
        return Decision(True, codec, dimensionality, case.raw_seconds, seconds, reason)

    def _raw_because(self, case: _Case, seconds: float, reason: str) -> Decision:
        text = f"{reason}; predicted are {_text(seconds)} compressed, {_text(case.raw_seconds)} not"
        return _not_compressed(text, case.raw_seconds, seconds)


def _not_compressed(
    reason: str, raw_seconds: float | None = None, compressed_seconds: float | None = None
) -> Decision:
    return Decision(False, "raw", 1, raw_seconds, compressed_seconds, reason)


def _too_little(codec: str, ratio: float) -> str:
    if ratio <= 1.005:
        return "no codec makes it smaller"
    return f"{codec} saves too little (ratio {ratio:.2f})"


def _nothing_known() -> Decision:
    return _not_compressed("nothing is known of such transfers over this link yet")


def _text(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"
