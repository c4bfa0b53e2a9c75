"""Transfers that a fit did not see, measured and predicted, as a chart.

As figures 5 and 6 of van Werkhoven et al. (2014), for more than one size: time over streams.
"""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.document.chart import INTERVAL, Axis, Chart, Curve
from lanescope.errors import InputError
from lanescope.model.transfer.fit import Residual, residuals
from lanescope.model.transfer.parameters import LinkParameters, Way
from lanescope.model.transfer.samples import Measured
from lanescope.report.format import bytes_text

#: So many sizes are drawn, evenly spread over those that were cut into several numbers of streams.
_SIZES = 5


def fit_chart(parameters: LinkParameters, measured: Sequence[Measured], way: Way) -> Chart:
    """Return measured times with their intervals, and predicted ones as dashed lines."""
    by_size: dict[int, list[Residual]] = {}
    for one in residuals(measured, parameters):
        if one.point.way is way:
            by_size.setdefault(one.point.bytes, []).append(one)
    sizes = [size for size, those in sorted(by_size.items()) if len(those) > 1]
    last = len(sizes) - 1
    picked = [sizes[round(i * last / (_SIZES - 1))] for i in range(_SIZES)] if sizes else []
    curves = []
    for number, size in enumerate(dict.fromkeys(picked)):
        those = sorted(by_size[size], key=lambda one: one.point.streams)
        curves += [_measured(size, those, number), _predicted(size, those, number)]
    errors = parameters.errors
    exact = "" if errors is None else f"; copies of 64 KiB and more within {errors.most:.1%}"
    where = "to the GPU" if way is Way.H2D else "from the GPU"
    if not curves:
        raise InputError("no transfers were held out from this fit: there is nothing to compare")
    return Chart(
        f"fit-{way}",
        "model",
        f"Transfers {where} that were not fitted, {parameters.link}",
        f"Measured and predicted by the parameters of {parameters.name}{exact}",
        Axis("Streams", log=True),
        Axis("Time", "s", log=True),
        tuple(curves),
        band=INTERVAL,
    )


def _measured(size: int, those: Sequence[Residual], number: int) -> Curve:
    return Curve(
        f"{bytes_text(size)}, measured",
        tuple(float(one.point.streams) for one in those),
        tuple(one.measured.value for one in those),
        tuple(one.measured.low for one in those),
        tuple(one.measured.high for one in those),
        colour=number,
    )


def _predicted(size: int, those: Sequence[Residual], number: int) -> Curve:
    return Curve(
        f"{bytes_text(size)}, predicted",
        tuple(float(one.point.streams) for one in those),
        tuple(one.predicted.value for one in those),
        colour=number,
        dash=1,
    )
