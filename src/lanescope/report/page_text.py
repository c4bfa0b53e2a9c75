"""The words that explain the numbers of a page."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.document.blocks import Bullets
from lanescope.measurement.result import Result

#: What every number on the page means.
DEFINITIONS: tuple[tuple[str, str], ...] = (
    ("GB/s", "1e9 bytes a second. Sizes are binary: 1 MiB is 1,048,576 bytes."),
    (
        "Counted bytes",
        "Payload only, never what the wire carries around it. A copy to, from or between GPUs "
        "counts its bytes once. Host threads count what they read and what they write: twice "
        "the array for a copy, three times for a triad.",
    ),
    ("Bandwidth", "Counted bytes over the median time of one repetition."),
    (
        "5th–95th percentile",
        "Bandwidth at the 95th and at the 5th percentile of the time: nine in ten repetitions "
        "lie between.",
    ),
    (
        "95 % half-width",
        "Half of the 95 % confidence interval of the median, as a share of it. It says how well "
        "the median is known, not how much single repetitions differ.",
    ),
    (
        "Limit",
        "The payload that the narrowest link on the way can carry when it is trained up fully, "
        "packet headers taken off; copies that run at once share it. It is a ceiling, not a goal: "
        "acknowledgements and flow control keep every real link a little below it.",
    ),
    ("% of limit", "Bandwidth over limit."),
    (
        "Delay",
        "The median time of the smallest copies. The fitted line is delay + bytes / plateau; its "
        "worst distance tells how far the truth is from a straight line.",
    ),
)


def method_bullets(results: Sequence[Result]) -> Bullets:
    """Return each method of timing once, with the experiments that used it."""
    users: dict[str, list[str]] = {}
    for result in results:
        if result.copies:
            users.setdefault(result.method, []).append(result.experiment.name)
    return Bullets([_method(method, names) for method, names in users.items()])


def _method(method: str, names: Sequence[str]) -> str:
    few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{method} ({few})"
