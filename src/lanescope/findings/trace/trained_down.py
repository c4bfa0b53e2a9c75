"""PCIe links that run below what both of their ends can do."""

from __future__ import annotations

from collections.abc import Iterator

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import finding
from lanescope.machine import Link, Machine, PcieLink
from lanescope.machine.pcie import is_outrun, payload_gbs
from lanescope.trace.limits import DIRECTIONS, pcie_links
from lanescope.trace.summary import DirectionSummary
from lanescope.units.bandwidth import transfer_seconds


def trained_down(machine: Machine, directions: tuple[DirectionSummary, ...]) -> Iterator[Finding]:
    """Yield a finding for each GPU below a link that is trained down and that saw traffic."""
    for gpu in dict.fromkeys(one.gpu for one in directions):
        own = tuple(one for one in directions if one.gpu == gpu)
        for link in pcie_links(machine, gpu):
            if link.pcie is not None and link.pcie.trained_down and not _awake(link.pcie, own):
                yield _finding(gpu, link, link.pcie, own)


def _peak_gbs(one: DirectionSummary) -> float | None:
    """The highest rate of a direction over 1 ms or 1 s: shorter ones hold buffered bytes."""
    windows = () if one.rates is None else one.rates.windows[1:]
    return max((w.peak_gbs for w in windows if w.peak_gbs is not None), default=None)


def _awake(pcie: PcieLink, directions: tuple[DirectionSummary, ...]) -> bool:
    peaks: list[float | None] = [None] * len(DIRECTIONS)
    for one in directions:
        peaks[DIRECTIONS.index(one.direction)] = _peak_gbs(one)
    return is_outrun(pcie, peaks)


def _finding(
    gpu: int, link: Link, pcie: PcieLink, directions: tuple[DirectionSummary, ...]
) -> Finding:
    best, now = pcie.at_best(), payload_gbs(pcie)
    gains = [
        transfer_seconds(payload, slow) - transfer_seconds(payload, fast)
        for one in directions
        if one.rates is not None and (payload := one.rates.payload_bytes) is not None
        for slow, fast in [
            (now[i], payload_gbs(best)[i]) for i in [DIRECTIONS.index(one.direction)]
        ]
    ]
    peaks = [
        f"{one.label} peaked at {peak:.3g} GB/s"
        for one in directions
        if (peak := _peak_gbs(one)) is not None
    ]
    return finding(
        "trained-down",
        f"The link of {link.b} to {link.a} runs at PCIe {pcie.generation}.0 x{pcie.width}, where "
        f"both ends can do {best.generation}.0 x{best.width}: {now[0]:.3g} instead of "
        f"{payload_gbs(best)[0]:.3g} GB/s to g{gpu}.",
        sum(gains) if gains else None,
        "the watched bytes at the payload limits of both states",
        (
            "The state was read while the link was in use: idle links slow down to save power.",
            "Copies run at the link's limit; those held up by something else gain less.",
        ),
        (f"told state: PCIe {pcie.generation}.0 x{pcie.width}", *peaks),
    )
