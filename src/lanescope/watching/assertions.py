"""Conditions on a summary, such as ``h2d.p50 > 40GB/s``: read, then evaluated.

::

    [gN.](h2d|d2h|nvlink-rx|nvlink-tx).(mean|p50|p99|peak|bytes|busy|share)[@(10us|1ms|1s)]
        (<|<=|>|>=) NUMBER UNIT

Without ``gN.`` every GPU must hold it. Rates of windows are those over 1 ms where nothing
else is asked for; of NVLink those over 10 ms, which ``@10ms`` names.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lanescope.errors import InputError
from lanescope.trace.limits import DIRECTIONS, NVLINK_DIRECTIONS
from lanescope.trace.summary import DirectionSummary, Summary
from lanescope.units.sizes import bandwidth_gbs, parse_size

RATES = ("mean", "p50", "p99", "peak")
METRICS = (*RATES, "bytes", "busy", "share")
DEFAULT_WINDOW_NS = 1_000_000
#: The driver's counters of NVLink are read so often.
DEFAULT_NVLINK_WINDOW_NS = 10_000_000
_WINDOWS = {"10us": 10_000, "1ms": 1_000_000, "1s": 1_000_000_000}
_NVLINK_WINDOWS = {**_WINDOWS, "10ms": DEFAULT_NVLINK_WINDOW_NS}
_DIRECTIONS = (*DIRECTIONS, *NVLINK_DIRECTIONS)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(.*)")
_PARTS = re.compile(r"\s*([^<>=\s]+)\s*([<>=!]+)\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition.

    Attributes
    ----------
    text
        As it was given.
    gpu
        None for every GPU.
    window_ns
        For p50, p99 and peak; None for others.
    bound
        In GB/s, bytes, or as a share, as the metric is.
    """

    text: str
    gpu: int | None
    direction: str
    metric: str
    window_ns: int | None
    comparison: str
    bound: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a condition.

    Attributes
    ----------
    passed
        None where a value is not known: that is no pass.
    measured
        By way, such as ``("g0.h2d", 51.2)``, in the unit of the bound; None when unknown.
    sentence
        The outcome in words.
    """

    assertion: Assertion
    passed: bool | None
    measured: tuple[tuple[str, float | None], ...]
    sentence: str


def parse(text: str) -> Assertion:
    """Return a condition.

    Raises
    ------
    InputError
        If it cannot be read; the sentence names the part at fault.

    >>> parse("g0.d2h.bytes < 2GiB").bound
    2147483648.0
    """
    match = _PARTS.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} compares nothing; write for example 'h2d.p50 > 40GB/s'")
    name, comparison, bound = match.groups()
    if comparison not in _COMPARE:
        raise _error(comparison, text, f"no comparison; use {_listed(_COMPARE)}")
    gpu, direction, metric, window = _name(name, text)
    return Assertion(text, gpu, direction, metric, window, comparison, _bound(bound, metric, text))


def evaluate(assertion: Assertion, summary: Summary) -> Outcome:
    """Return whether a summary holds a condition."""
    directions = [
        one
        for one in (*summary.directions, *summary.nvlinks)
        if one.direction == assertion.direction and assertion.gpu in (None, one.gpu)
    ]
    measured = tuple((one.label, _value(one, assertion)) for one in directions)
    holds = _COMPARE[assertion.comparison]
    known = [value for _, value in measured if value is not None]
    failed = not all(holds(value, assertion.bound) for value in known)
    unknown = not measured or len(known) < len(measured)
    passed = False if failed else None if unknown else True
    values = ", ".join(f"{label} {_text(value, assertion.metric)}" for label, value in measured)
    word = {True: "holds", False: "does not hold", None: "is not known"}[passed]
    return Outcome(
        assertion, passed, measured, f"{assertion.text} {word}: {values or 'nothing was watched'}."
    )


def _name(name: str, text: str) -> tuple[int | None, str, str, int | None]:
    path, at, window = name.partition("@")
    parts = path.split(".")
    gpu = None
    if re.fullmatch(r"g[0-9]{1,4}", parts[0]):
        gpu = int(parts.pop(0)[1:])
    if not parts or parts[0] not in _DIRECTIONS:
        hint = f"no direction; write {_listed(_DIRECTIONS)}"
        raise _error(parts[0] if parts else name, text, hint)
    if len(parts) != 2 or parts[1] not in METRICS:
        wrong = ".".join(parts[1:]) or name
        raise _error(wrong, text, f"nothing that is measured; use {_listed(METRICS)}")
    windowed = parts[1] in RATES[1:]
    over_nvlink = parts[0] in NVLINK_DIRECTIONS
    windows = _NVLINK_WINDOWS if over_nvlink else _WINDOWS
    if at and (window not in windows or not windowed):
        hint = f"use {_listed(windows)}, with {_listed(RATES[1:])}"
        raise _error(at + window, text, f"no window here; {hint}")
    default = DEFAULT_NVLINK_WINDOW_NS if over_nvlink else DEFAULT_WINDOW_NS
    chosen = windows.get(window, default) if windowed else None
    return gpu, parts[0], parts[1], chosen


def _bound(bound: str, metric: str, text: str) -> float:
    if metric == "bytes":
        try:
            return 0.0 if re.fullmatch(r"0\s*[A-Za-z]*", bound) else float(parse_size(bound))
        except InputError:
            raise _error(bound, text, "no size; write for example 2GiB") from None
    match = _NUMBER.fullmatch(bound)
    if match is not None:
        number, unit = float(match[1]), match[2]
        if metric not in RATES and unit in ("%", ""):
            return number / 100 if unit else number
        if metric in RATES and unit.endswith("/s"):
            try:
                return bandwidth_gbs(number * parse_size(f"1{unit[:-2]}"), 1.0)
            except InputError:
                pass
    wanted = "rate; write for example 40GB/s" if metric in RATES else "share; write for example 5%"
    raise _error(bound, text, f"no {wanted}")


def _value(one: DirectionSummary, assertion: Assertion) -> float | None:
    rates = one.rates
    if assertion.metric == "share":
        return one.share_of_limit
    if rates is None:
        return None
    if assertion.window_ns is None:
        plain = {
            "mean": rates.mean_gbs,
            "bytes": rates.payload_bytes,
            "busy": rates.busy_share,
        }
        return plain[assertion.metric]
    for window in rates.windows:
        if window.window_ns == assertion.window_ns:
            found: float | None = getattr(window, f"{assertion.metric}_gbs")
            return found
    return None


def _text(value: float | None, metric: str) -> str:
    if value is None:
        return "not known"
    if metric == "bytes":
        return f"{value:.0f} B"
    return f"{value:.4g} GB/s" if metric in RATES else f"{value * 100:.3g} %"


def _error(part: str, text: str, what: str) -> InputError:
    return InputError(f"{part!r} in {text!r} is {what}")


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return f"{', '.join(every[:-1])} or {every[-1]}"
