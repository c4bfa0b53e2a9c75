"""What is measured: kernels that move and compute different amounts, by every method."""

from __future__ import annotations

from lanescope.grid.case import GridCase
from lanescope.grid.equations import Equation
from lanescope.grid.reference import Kernel
from lanescope.model.overlap.methods import STREAMED, Method

#: `state` with one and three outputs and `buoydiff` are the paper's.
CASES = (
    GridCase(Kernel.STATE),
    GridCase(Kernel.STATE, outputs=3),
    GridCase(Kernel.STATE, Equation.JMCD),
    GridCase(Kernel.STATE, Equation.JMCD, outputs=3),
    GridCase(Kernel.BUOYDIFF),
    GridCase(Kernel.AXPY),
    GridCase(Kernel.CONVOLUTION),
)
#: Points from west to east, to north, and levels: the paper's grid.
GRID = (1024, 1024, 42)
#: Numbers of streams that are tried, as far as a grid has levels.
STREAMS = (1, 2, 3, 4, 6, 8, 14, 21, 42)


def case_name(case: GridCase) -> str:
    """Return a case in words, such as ``state mwjf, 3 outputs``."""
    if not case.has_equation:
        return str(case.kernel)
    name = f"{case.kernel} {case.equation}"
    if case.kernel is not Kernel.STATE:
        return name
    return f"{name}, {case.outputs} output{'s' if case.outputs > 1 else ''}"


def stream_counts(method: Method, levels: int) -> tuple[int, ...]:
    """Return the numbers of streams to try of a grid with so many levels, its own among them."""
    if method not in STREAMED:
        return (1,)
    return tuple(sorted({*(n for n in STREAMS if n <= levels), min(levels, STREAMS[-1])}))
