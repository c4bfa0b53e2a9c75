"""A link and a predictor that are made up for tests; what they tell is of no machine.

The link's figures are near those of an H200 on PCIe 5.0 x16, rounded.
"""

from __future__ import annotations

from dataclasses import replace

from lanescope.errors import NotMeasuredError
from lanescope.prediction.costs import transfer_seconds
from lanescope.prediction.parameters import (
    CopyCost,
    Duplex,
    Launching,
    LinkParameters,
    Mapped,
    Mixture,
    Origin,
)
from lanescope.prediction.predictor import Method, Prediction, Workload
from lanescope.units.estimate import Estimate


def about(value: float, share: float = 0.01) -> Estimate:
    return Estimate(value, value * (1 - share), value * (1 + share))


def direction(gbs: float, first_us: float = 8.0, gap_us: float = 1.5) -> CopyCost:
    return CopyCost(about(first_us * 1e-6), about(1e-9 / gbs), about(gap_us * 1e-6))


LINK = LinkParameters(
    name="made-up",
    gpu="NVIDIA H200",
    link="PCIe 5.0 x16",
    origin=Origin.PUBLISHED,
    source="made up for tests",
    copy_engines=2,
    implicit_synchronisation=False,
    h2d=direction(55.6),
    d2h=direction(55.4),
    duplex=Duplex(about(1e-9 / 52.3), about(1e-9 / 50.7)),
    mapped=Mapped(
        about(9e-6),
        about(1e-9 / 51.5),
        about(1e-9 / 52.6),
        Mixture((0.5,), (about(52.0 / 42.4),)),
    ),
    pageable_h2d=direction(10.0, 12.0, 8.0),
    pageable_d2h=direction(10.0, 12.0, 8.0),
    launching=Launching(about(7e-6), about(3e-6), about(1.2e-6), about(1e-6)),
)
UNMAPPED = replace(LINK, mapped=None)
PINNED_ONLY = replace(LINK, pageable_h2d=None, pageable_d2h=None)


class Simple:
    """Three servers in a row, full duplex: the shortest ones are hidden behind the longest."""

    name = "simple"

    def value(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        return self.predict(workload, method, streams, parameters).seconds.value

    def least(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        return 0.0

    def predict(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> Prediction:
        work = workload
        if method is Method.PAGEABLE:
            if parameters.pageable_h2d is None or parameters.pageable_d2h is None:
                raise NotMeasuredError("pageable memory was not measured.", "Measure it.")
            directions = parameters.pageable_h2d, parameters.pageable_d2h
        else:
            directions = parameters.h2d, parameters.d2h
        if method is Method.IMPLICIT:
            return self._answer(method, 1, self._mapped(work, parameters))
        down, up = (
            transfer_seconds(direction, moved, arrays * streams).value if moved else 0.0
            for direction, moved, arrays in zip(
                directions,
                (work.h2d_bytes, work.d2h_bytes),
                (work.h2d_arrays, work.d2h_arrays),
                strict=True,
            )
        )
        if method is Method.HYBRID:
            up = self._write(work, parameters)
        parts = (down, work.kernel_seconds, up)
        if streams == 1:
            return self._answer(method, 1, sum(parts))
        return self._answer(method, streams, max(parts) + (sum(parts) - max(parts)) / streams)

    def _mapped(self, work: Workload, parameters: LinkParameters) -> float:
        if parameters.mapped is None:
            raise NotMeasuredError("mapped memory was not measured.", "Measure it.")
        read = work.h2d_bytes * parameters.mapped.read_per_byte.value
        return parameters.mapped.first.value + max(
            read, self._write(work, parameters), work.kernel_seconds
        )

    def _write(self, work: Workload, parameters: LinkParameters) -> float:
        if parameters.mapped is None:
            raise NotMeasuredError("mapped memory was not measured.", "Measure it.")
        return work.d2h_bytes * parameters.mapped.write_per_byte.value

    def _answer(self, method: Method, streams: int, seconds: float) -> Prediction:
        return Prediction(method, streams, about(seconds, 0.02), self.name, "h2d")
