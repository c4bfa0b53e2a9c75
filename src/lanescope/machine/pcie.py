"""How many payload bytes a PCI Express link can carry.

A link of generation g and width w moves ``rate(g) * w`` bits a second in each
direction. The line code takes its share (8b/10b up to generation 2, 128b/130b
from 3 to 5), and each transaction layer packet (TLP) adds framing, sequence
number, header and checksum to its payload.

Sources
-------
PCI Express Base Specification 5.0, sections 2.2 (TLP headers), 3.6.2 (sequence
number, LCRC) and 4.2.2 (framing tokens); 6.0, section 4.2.3 (flits: 236 of 256
bytes carry TLPs). Intel's application note AN 456 works the same overhead out
as "5 to 7 dwords a TLP" without the optional end-to-end checksum (ECRC).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from lanescope.calls import checked
from lanescope.codec.fields import Bound

#: Giga-transfers a second and lane, by generation.
TRANSFER_RATE_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

#: Lanes that a link may have, and bytes that its packets and read requests may have at most.
WIDTHS = (1, 2, 4, 8, 12, 16, 32)
PACKET_BYTES = (128, 256, 512, 1024, 2048, 4096)

#: What is assumed when nothing can be read: the usual payload, and the largest request, so
#: that read requests never make a limit too low.
DEFAULT_MAX_PAYLOAD_BYTES = 256
DEFAULT_MAX_READ_REQUEST_BYTES = 4096

_FRAMING_BYTES = 4  # STP token; up to generation 2: start 1 + sequence number 2 + end 1
_LCRC_BYTES = 4
#: What a GPU's kernels read and write at once.
CACHE_LINE_BYTES = 128

_HEADER_3DW_BYTES = 12  # completions
_HEADER_4DW_BYTES = 16  # requests with a 64-bit address

#: How exactly rates are known.
_INEXACT = 1.02

_FLIT_BYTES = 256
_FLIT_TLP_BYTES = 236


Generation = Annotated[int, Bound("1 to 6", lambda value: value in TRANSFER_RATE_GTS)]
Lanes = Annotated[int, Bound("1 to 32", lambda value: 1 <= value <= 32)]
#: The specification has 128 to 4096, in powers of two.
PacketBytes = Annotated[int, Bound("1 to 4096 bytes", lambda value: 1 <= value <= 4096)]


@dataclass(frozen=True, slots=True)
@checked
class PcieLink:
    """State of one PCI Express link.

    Attributes
    ----------
    generation, width
        What the link runs at: generation 1 to 6, 1 to 16 lanes.
    max_generation, max_width
        What both ends could run at, or None when unknown.
    max_payload_bytes
        Negotiated maximum TLP payload; None when it could not be read, in
        which case limits assume `DEFAULT_MAX_PAYLOAD_BYTES`.
    max_read_request_bytes
        The most a device may ask for in one read; None when unknown.
    """

    generation: Generation
    width: Lanes
    max_generation: Generation | None = None
    max_width: Lanes | None = None
    max_payload_bytes: PacketBytes | None = None
    max_read_request_bytes: PacketBytes | None = None

    @property
    def label(self) -> str:
        """What it runs at in a few words, such as ``PCIe 5.0 x16``."""
        return f"PCIe {self.generation}.0 x{self.width}"

    @property
    def trained_down(self) -> bool:
        """Whether it runs below what both of its ends could do, asleep or not."""
        slower = self.max_generation is not None and self.generation < self.max_generation
        return slower or (self.max_width is not None and self.width < self.max_width)

    def at_best(self) -> PcieLink:
        """Return this link as it would be fully trained up."""
        generation = max(self.generation, self.max_generation or 0)
        return replace(self, generation=generation, width=max(self.width, self.max_width or 0))


def line_rate_gbs(generation: int, width: int) -> float:
    """Return the bytes a second of one direction after the line code, in GB/s.

    Raises
    ------
    ValueError
        If the generation is not 1 to 6 or the width is not positive.
    """
    if generation not in TRANSFER_RATE_GTS:
        raise ValueError(f"PCIe generation {generation} is not one of 1 to 6")
    if width < 1:
        raise ValueError(f"a PCIe link of {width} lanes does not exist")
    raw = TRANSFER_RATE_GTS[generation] * width / 8
    if generation <= 2:
        return raw * 8 / 10
    if generation <= 5:
        return raw * 128 / 130
    return raw


def wire_bytes_per_payload_byte(
    generation: int, max_payload_bytes: int, header_bytes: int
) -> float:
    """Return how many bytes the wire carries for one byte of payload (1 or more).

    Counts framing, sequence number, header and LCRC of TLPs that are as large
    as allowed. Acknowledgements and flow-control updates are left out, so that
    a limit from this figure is never below what a link can really do.
    """
    if generation >= 6:  # flit mode: no framing and no LCRC of its own
        packed = (max_payload_bytes + header_bytes) / max_payload_bytes
        return packed * _FLIT_BYTES / _FLIT_TLP_BYTES
    overhead = _FRAMING_BYTES + header_bytes + _LCRC_BYTES
    return (max_payload_bytes + overhead) / max_payload_bytes


def downstream_wire_factor(link: PcieLink) -> float:
    """Wire bytes per payload byte from host to device: completions of the device's reads."""
    return wire_bytes_per_payload_byte(link.generation, _payload(link), _HEADER_3DW_BYTES)


def upstream_wire_factor(link: PcieLink) -> float:
    """Wire bytes per payload byte from device to host: posted writes to 64-bit addresses."""
    return wire_bytes_per_payload_byte(link.generation, _payload(link), _HEADER_4DW_BYTES)


def request_wire_factor(link: PcieLink) -> float:
    """Wire bytes sent upstream for each payload byte that the device reads.

    A device fetches data by read requests, which share the upstream direction
    with its own writes.
    """
    size = link.max_read_request_bytes or DEFAULT_MAX_READ_REQUEST_BYTES
    if link.generation >= 6:
        return _HEADER_4DW_BYTES / size * _FLIT_BYTES / _FLIT_TLP_BYTES
    return (_FRAMING_BYTES + _HEADER_4DW_BYTES + _LCRC_BYTES) / size


def payload_gbs(link: PcieLink) -> tuple[float, float]:
    """Return the payload limits (host to device, device to host) of one direction each, in GB/s.

    >>> down, up = payload_gbs(PcieLink(5, 16, max_payload_bytes=256))
    >>> f"{down:.1f} {up:.1f}"
    '58.4 57.6'
    """
    raw = line_rate_gbs(link.generation, link.width)
    return raw / downstream_wire_factor(link), raw / upstream_wire_factor(link)


def is_trained_down(link: PcieLink, rates_gbs: Sequence[float | None]) -> bool:
    """Whether a link that data crosses is held to less than both of its ends could do.

    Where a rate (host to device, device to host; GB/s, None where unknown) is above what the
    link's state allows, the state was read while the link slept: it slows down to save power.
    """
    pairs = zip(rates_gbs, payload_gbs(link), strict=True)
    asleep = any(rate is not None and rate > _INEXACT * limit for rate, limit in pairs)
    return link.trained_down and not asleep


def for_kernels(link: PcieLink) -> PcieLink:
    """Return the link as kernels use it: no packet or request is about more than a cache line.

    Kernels read and write lines of 128 bytes. With packets of that size 53.1
    GB/s fit through PCIe 5.0 x16 from device to host, where an H200's kernels
    were measured at 52.7 and its copy engine, with 256 bytes, at 55.4. With a
    request for each line 45.8 GB/s fit both ways at once; 42.5 were measured.
    """
    payload = min(_payload(link), CACHE_LINE_BYTES)
    return dataclasses.replace(
        link, max_payload_bytes=payload, max_read_request_bytes=CACHE_LINE_BYTES
    )


def _payload(link: PcieLink) -> int:
    return link.max_payload_bytes or DEFAULT_MAX_PAYLOAD_BYTES
