"""How far predictions may be off beyond the intervals of the parameters."""

from __future__ import annotations

from lanescope.model.overlap.methods import Method
from lanescope.model.transfer.parameters import LinkParameters

#: The largest errors of the paper's own predictions (van Werkhoven et al. 2014, section VII), as
#: shares of the measured time: for parameters that nobody compared with transfers. Pageable
#: memory is not in the paper; it gets the largest of the others.
PUBLISHED_ERRORS = {
    Method.EXPLICIT: 0.0973,
    Method.IMPLICIT: 0.0385,
    Method.STREAMS: 0.0646,
    Method.HYBRID: 0.1075,
    Method.PAGEABLE: 0.1075,
}


def error_share(parameters: LinkParameters, method: Method) -> float:
    """Return by which share an interval is widened beyond those of the parameters.

    `Errors.p95` where the parameters were compared with transfers, else `PUBLISHED_ERRORS`.
    """
    known = parameters.errors
    return min(PUBLISHED_ERRORS[method] if known is None else known.p95, 1.0)
