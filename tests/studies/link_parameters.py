"""Parameters as a fit gives them: intervals, times of small copies, everything known.

The numbers are of no machine; they are near those of a GPU on PCIe 5.0.
"""

from lanescope.prediction.parameters import (
    CopyCost,
    Duplex,
    Errors,
    Launching,
    LinkParameters,
    Mapped,
    Mixture,
    Origin,
    Range,
)
from lanescope.units.estimate import Estimate, Surface, TimeCurve

SIZES = (8, 4096, 65536, 1 << 20, 1 << 26, 1 << 30)


def within(value, share=0.005):
    return Estimate(value, value * (1 - share), value * (1 + share))


def curve(first, per_byte):
    return TimeCurve(SIZES, tuple(within(first + size * per_byte) for size in SIZES))


def direction(per_byte, first=5e-6, gap=0.4e-6, call=1.5e-6):
    return CopyCost(
        within(first),
        within(per_byte),
        within(gap),
        single=curve(first * 1.1, per_byte),
        next=Surface((256,), (curve(max(gap, call), per_byte),)),
        call=curve(call, 0.0),
        engine=curve(gap, per_byte),
    )


def fitted(**changes):
    told = {
        "name": "fitted",
        "gpu": "NVIDIA Test",
        "link": "PCIe 5.0 x16",
        "origin": Origin.MEASURED,
        "source": "a test",
        "copy_engines": 2,
        "implicit_synchronisation": False,
        "h2d": direction(1 / 55e9),
        "d2h": direction(1 / 54e9),
        "duplex": Duplex(within(1 / 47e9), within(1 / 46e9)),
        "explicit_mapped": Duplex(within(1 / 44e9), within(1 / 43e9)),
        "mapped": Mapped(
            within(8e-6),
            within(1 / 50e9),
            within(1 / 52e9),
            Mixture((0.5,), (within(1.2),)),
        ),
        "pageable_h2d": CopyCost(within(8e-6), within(1 / 9e9), within(4e-6)),
        "pageable_d2h": CopyCost(within(9e-6), within(1 / 7e9), within(4e-6)),
        "launching": Launching(within(6e-6), within(2e-6), within(1e-6), within(0.5e-6)),
        "measured": Range(8, 1 << 30, 256),
        "errors": Errors(100, 0.004, 0.012, 0.028),
        "machine_key": "NVIDIA Test; a CPU; PCIe 5.0 x16",
        "day": "2026-11-21",
    }
    return LinkParameters(**(told | changes))
