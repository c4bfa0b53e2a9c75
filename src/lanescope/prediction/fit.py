"""Fits the parameters of a link from timed transfers; pure, so that stored samples fit again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lanescope.argument_names import command
from lanescope.errors import InputError
from lanescope.prediction.curves import Curve
from lanescope.prediction.fit_direction import fit_direction, fit_pageable
from lanescope.prediction.fit_together import (
    fit_duplex,
    fit_explicit_mapped,
    fit_mixture,
    fit_paced,
)
from lanescope.prediction.parameters import (
    Direction,
    Errors,
    Launching,
    LinkParameters,
    Mapped,
    Origin,
    Range,
)
from lanescope.prediction.points import Kind, Point
from lanescope.prediction.samples import Measured, median_of, settle
from lanescope.prediction.seconds import transfer_seconds
from lanescope.units.estimate import Estimate

#: A fit is of use while 95 % of the transfers that it did not see lie within this share.
USABLE = 0.1
#: Of pinned memory, from which times of other sizes follow.
_FEWEST_SIZES = 2
#: Errors are told of transfers from there on: below, a call's jitter is more than that.
_COMPARED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """What is known of a link without timing it.

    Attributes are those of `LinkParameters`.
    """

    name: str
    gpu: str
    link: str
    source: str
    copy_engines: int
    machine_key: str | None
    day: str
    memory_bytes: int | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class Residual:
    """A transfer that the fit did not use, and what it predicts of it.

    Attributes
    ----------
    point
        The transfer.
    measured, predicted
        Seconds.
    """

    point: Point
    measured: Estimate
    predicted: Estimate

    @property
    def error(self) -> float:
        """Signed, as a share of the measured time."""
        return self.predicted.value / self.measured.value - 1


def fit(measured: Sequence[Measured], facts: LinkFacts) -> LinkParameters:
    """Return the parameters that the points tell which are not held out.

    Raises
    ------
    InputError
        If there are too few points, or they contradict each other.
    """
    measured = settle(measured)
    used = [m for m in measured if not m.point.held_out]
    copies = [m.point for m in used if m.point.kind is Kind.COPIES]
    if not copies:
        raise InputError(
            "the fit has no copies of pinned memory to learn from; run "
            f"{command('model fit')} again"
        )
    parameters = LinkParameters(
        name=facts.name,
        gpu=facts.gpu,
        link=facts.link,
        origin=Origin.MEASURED,
        source=facts.source,
        copy_engines=min(facts.copy_engines, 2),
        implicit_synchronisation=False,
        h2d=fit_direction(Direction.H2D, used),
        d2h=fit_direction(Direction.D2H, used),
        pageable_h2d=fit_pageable(Direction.H2D, used),
        pageable_d2h=fit_pageable(Direction.D2H, used),
        fresh_d2h=fit_pageable(Direction.D2H, used, Kind.FRESH),
        launching=_launching(used),
        pinning=_pinning(used),
        measured=Range(
            min(point.bytes for point in copies),
            max(point.bytes for point in copies),
            max(point.streams for point in copies),
        ),
        machine_key=facts.machine_key,
        day=facts.day,
        memory_bytes=facts.memory_bytes,
        driver=facts.driver,
    )
    parameters = replace(parameters, mapped=_mapped(used, parameters))
    parameters = replace(
        parameters,
        duplex=fit_duplex(used, parameters),
        explicit_mapped=fit_explicit_mapped(used, parameters),
        paced=fit_paced(used, parameters),
    )
    return replace(parameters, errors=errors_of(residuals(measured, parameters)))


def residuals(measured: Sequence[Measured], parameters: LinkParameters) -> tuple[Residual, ...]:
    """Compare what the fit did not use with what it predicts."""
    return tuple(
        Residual(
            m.point,
            m.whole,
            transfer_seconds(parameters.copies(m.point.direction), m.point.bytes, m.point.streams),
        )
        for m in settle(measured)
        if m.point.held_out and m.point.kind is Kind.COPIES
    )


def is_usable(parameters: LinkParameters) -> bool:
    """Whether a fit describes transfers that it did not see well enough to predict by it."""
    return parameters.errors is None or parameters.errors.p95 <= USABLE


def errors_of(compared: Sequence[Residual]) -> Errors | None:
    """Return how large the errors of copies of 64 KiB and more are; None without any."""
    sizes = np.array(
        [abs(r.error) for r in compared if r.point.bytes >= _COMPARED_BYTES * r.point.streams]
    )
    if sizes.size == 0:
        return None
    median, p95 = (float(x) for x in np.percentile(sizes, [50, 95]))
    return Errors(int(sizes.size), median, p95, float(sizes.max()))


def _of_kind(measured: Sequence[Measured], kind: Kind) -> list[Measured]:
    return [m for m in measured if m.point.kind is kind]


def _pinning(measured: Sequence[Measured]) -> Curve | None:
    """Return what pinned memory takes by its size: the median of all rounds, and their range."""
    found = sorted(_of_kind(measured, Kind.PIN), key=lambda one: one.point.bytes)
    if len(found) < _FEWEST_SIZES:
        return None
    return Curve(
        tuple(one.point.bytes for one in found),
        tuple(
            Estimate(one.whole.value, float(one.seconds.min()), float(one.seconds.max()))
            for one in found
        ),
    )


def _launching(measured: Sequence[Measured]) -> Launching | None:
    """L + o of an empty kernel; what each further one holds the thread and the GPU."""
    launches = {m.point.streams: m for m in _of_kind(measured, Kind.LAUNCHES)}
    events = _of_kind(measured, Kind.EVENTS)
    if 1 not in launches or len(launches) < 2 or not events:
        return None
    count = max(launches)
    many, linked = launches[count], events[0]
    if many.held is None:
        return None
    call = median_of(many.calls).map(lambda seconds: seconds / count)
    # A recording and a wait for each kernel more than without events.
    more = (median_of(linked.calls).value - median_of(many.calls).value) / (
        2 * linked.point.streams
    )
    return Launching(
        first=launches[1].whole,
        call=call,
        gap=median_of(many.held).map(lambda seconds: seconds / count),
        event_call=Estimate.exactly(max(more, 0.0)),
    )


def _mapped(measured: Sequence[Measured], parameters: LinkParameters) -> Mapped | None:
    """G of kernels that read, that write, and that do both, of the host's memory."""
    found = {(m.point.reads, m.point.writes): m for m in _of_kind(measured, Kind.MAPPED)}
    launching = parameters.launching
    if launching is None or (1, 0) not in found or (0, 1) not in found:
        return None
    first = launching.first
    read, write = (_per_byte(found[key], first.value) for key in ((1, 0), (0, 1)))
    mapped = Mapped(first, read, write)
    return replace(mapped, mixture=fit_mixture(measured, mapped))


def _per_byte(measured: Measured, first: float) -> Estimate:
    size = measured.point.bytes
    return measured.whole.map(lambda seconds: max(seconds - first, 0.0) / size)
