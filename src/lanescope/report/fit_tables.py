"""The parameters of a link as tables and lines of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.table import Table

from lanescope.model.transfer.estimate import Estimate
from lanescope.model.transfer.fit import USABLE, is_usable, residuals
from lanescope.model.transfer.parameters import Direction, LinkParameters
from lanescope.model.transfer.samples import Measured
from lanescope.model.transfer.settling import SETTLED, disturbed, unsettled
from lanescope.report.format import bytes_text, gbs_text, seconds_text, time_spread_text
from lanescope.units.bandwidth import bandwidth_gbs

#: So many of the transfers that fit worst are told.
_WORST = 3


def fit_parts(parameters: LinkParameters, measured: Sequence[Measured]) -> Iterator[Table | str]:
    """Return what the terminal shows, from top to bottom."""
    yield f"{parameters.name}, {parameters.link}: measured by {parameters.source}"
    yield _directions(parameters)
    yield _together(parameters)
    yield _kernels(parameters)
    yield from _errors(parameters, measured)
    yield from _disturbances(measured)
    yield from _usable(parameters)


def _directions(parameters: LinkParameters) -> Table:
    table = _table("Copies", "of pinned memory, alone")
    rows: tuple[tuple[str, Callable[[Direction], str]], ...] = (
        ("L + o, the smallest copy", lambda d: _time(d.first)),
        ("G as bandwidth", lambda d: _rate(d.per_byte)),
        ("g, each further copy", lambda d: _time(d.gap)),
        ("o, a call of 4 KiB", lambda d: _call(d, 4 << 10)),
        ("o, a call of 1 MiB", lambda d: _call(d, 1 << 20)),
    )
    for name, of in rows:
        table.add_row(name, of(parameters.h2d), of(parameters.d2h))
    if parameters.pageable_h2d is not None and parameters.pageable_d2h is not None:
        table.add_row(
            "pageable memory, long copies",
            _rate(parameters.pageable_h2d.per_byte),
            _rate(parameters.pageable_d2h.per_byte),
        )
    return table


def _together(parameters: LinkParameters) -> Table:
    table = _table("Both ways at once", "while the other direction moves, too")
    for name, both in (
        ("copies and copies", parameters.duplex),
        ("copies in, kernels write mapped memory", parameters.explicit_mapped),
    ):
        if both is not None:
            table.add_row(name, _rate(both.h2d_per_byte), _rate(both.d2h_per_byte))
    paced = parameters.paced
    if paced is not None:
        for share, copies, kernel in zip(
            paced.shares, paced.h2d_factors, paced.kernel_factors, strict=True
        ):
            table.add_row(
                f"copies in, kernels write {share:.0%} of their time",
                _slower(copies),
                f"kernel {_slower(kernel)}",
            )
    mapped = parameters.mapped
    if mapped is not None:
        table.add_row(
            "a kernel on mapped memory, one way",
            _rate(mapped.read_per_byte),
            _rate(mapped.write_per_byte),
        )
    return table


def _kernels(parameters: LinkParameters) -> Table:
    table = Table(title="Kernels (measured, 95 % interval)", title_justify="left")
    table.add_column("parameter")
    table.add_column("time", justify="right")
    known = parameters.launching
    if known is not None:
        table.add_row("an empty kernel, from the launch to its end", _time(known.first))
        table.add_row("a launch's call", _time(known.call))
        table.add_row("from kernel to kernel", _time(known.gap))
        table.add_row("an event's call", _time(known.event_call))
    mixture = None if parameters.mapped is None else parameters.mapped.mixture
    if mixture is not None:
        for share, factor in zip(mixture.shares, mixture.factors, strict=True):
            table.add_row(
                f"mapped memory, {share:.0%} of the time for writes",
                f"× {factor.value:.3f} of the longer ({factor.low:.3f} to {factor.high:.3f})",
            )
    return table


def _errors(parameters: LinkParameters, measured: Sequence[Measured]) -> Iterator[str]:
    errors = parameters.errors
    if errors is None:
        yield "No transfers were held out: how exact the fit is, is not known."
        return
    yield (
        f"Transfers that were not fitted, copies of 64 KiB and more ({errors.count}): predicted "
        f"within {errors.median:.2%} (median), {errors.p95:.2%} (95 %), {errors.most:.2%} at most."
    )
    compared = residuals(measured, parameters)
    shares = sorted(abs(r.error) for r in compared)
    if shares:
        middle = shares[len(shares) // 2]
        yield (
            f"All of them, from 8 B on ({len(shares)}): within {middle:.2%} (median), "
            f"{shares[-1]:.1%} at most. The furthest off:"
        )
    for one in sorted(compared, key=lambda r: -abs(r.error))[:_WORST]:
        yield (
            f"- {bytes_text(one.point.bytes)} {one.point.way} on {one.point.streams} streams: "
            f"measured {seconds_text(one.measured.value)} "
            f"({time_spread_text(one.measured.low, one.measured.high)}), predicted "
            f"{seconds_text(one.predicted.value)}, {one.error:+.1%}"
        )


def _usable(parameters: LinkParameters) -> Iterator[str]:
    if is_usable(parameters):
        return
    yield (
        f"More than 5 % of these transfers are off by more than {USABLE:.0%}: something else used "
        "the link or the host's memory meanwhile, or moved this process. The fit is not kept for "
        "this machine; leave the machine to it alone and run 'lanescope model fit' again."
    )


def _disturbances(measured: Sequence[Measured]) -> Iterator[str]:
    left_out, open_ = disturbed(measured), unsettled(measured)
    if left_out:
        yield (
            f"{left_out} of {len(measured)} timings were more than {SETTLED:.0%} slower than "
            "another one of the same transfer: they were disturbed, and do not count."
        )
    if open_:
        yield (
            f"Of {len(open_)} transfers no two timings agree: leave the GPU and the host's memory "
            "to the fit alone, and run 'lanescope model fit' again."
        )


def _table(title: str, what: str) -> Table:
    table = Table(title=f"{title} ({what}; measured, 95 % interval)", title_justify="left")
    table.add_column("parameter")
    table.add_column("to the GPU", justify="right")
    table.add_column("from it", justify="right")
    return table


def _time(one: Estimate) -> str:
    return f"{seconds_text(one.value)} ({time_spread_text(one.low, one.high)})"


def _rate(per_byte: Estimate) -> str:
    value, high, low = (
        bandwidth_gbs(1.0, g) for g in (per_byte.value, per_byte.low, per_byte.high)
    )
    return f"{gbs_text(value)} GB/s ({gbs_text(low)} to {gbs_text(high)})"


def _slower(factor: Estimate) -> str:
    return f"× {factor.value:.2f} as long ({factor.low:.2f} to {factor.high:.2f})"


def _call(direction: Direction, size: int) -> str:
    return "–" if direction.call is None else _time(direction.call.at(size))
