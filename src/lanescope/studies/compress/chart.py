"""What GFC makes of arrays by its dimensionality, as figure 7 of Anton (2015) has it."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.document.chart import Axis, Chart, Curve
from lanescope.errors import InputError
from lanescope.studies.compress.results import ArrayResult

#: Curves that can be told apart.
_MOST_CURVES = 12


def compress_chart(results: Sequence[ArrayResult]) -> Chart:
    """Return a curve for each array that GFC takes, the largest ones.

    Raises
    ------
    InputError
        If there is none.
    """
    known = [one for one in results if one.dimensionalities]
    if not known:
        raise InputError(
            "what GFC makes of arrays cannot be drawn: none of them was of a type that it takes; "
            "give one of fp64 or fp32"
        )
    drawn = sorted(known, key=lambda one: -one.bytes)[:_MOST_CURVES]
    more = len(known) - len(drawn)
    return Chart(
        "compress",
        "compression",
        "Compression ratio by GFC's dimensionality",
        "Bytes of the array over bytes of the stream; above 1 it became smaller",
        Axis("Dimensionality"),
        Axis("Compression ratio"),
        tuple(_curve(one, number) for number, one in enumerate(drawn)),
        notes=(f"{more} smaller arrays are not drawn.",) if more else (),
    )


def _curve(result: ArrayResult, number: int) -> Curve:
    name = result.name.rsplit("/", 1)[-1] + (", made up" if result.made_up else "")
    return Curve(
        name,
        tuple(float(one.choice.dimensionality) for one in result.dimensionalities),
        tuple(one.ratio for one in result.dimensionalities),
        colour=number,
    )
