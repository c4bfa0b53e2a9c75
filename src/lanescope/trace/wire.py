"""From bytes on the wire to payload, and back.

A link's counters count packets with their headers, and the requests that fetch data, which
go the other way: whoever takes them for payload sees traffic to the host where there is none.
Which parts of a packet count differs between sources, and follows from PCI Express:

- PM sampling counts headers, not framing and checksum. An H200 with packets of 256 bytes
  showed 1.0469 (12 bytes of header), 1.0625 (16 bytes) and 0.0625 (a request of 16 bytes
  for each 256) bytes on the wire for a byte of payload.
- NVML counts framing and checksum too: 1.078, 1.094 and 0.094 on the same machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lanescope._core import native
from lanescope.machine.pcie import DEFAULT_MAX_PAYLOAD_BYTES, PcieLink
from lanescope.trace.codes import FloatArray, IntArray
from lanescope.trace.stored_columns import pieces_of, search
from lanescope.trace.timeline import Counters

#: Header bytes of what carries data to the GPU (completions), and of what leaves it
#: (writes and read requests with 64-bit addresses).
COMPLETION_HEADER_BYTES = 12
REQUEST_HEADER_BYTES = 16
#: Start token with sequence number, and checksum of the link layer.
FRAMING_BYTES = 8
#: Copy engines ask for so many bytes at once, whatever larger requests are allowed.
COPY_REQUEST_BYTES = 256
#: Sources that count packets without `FRAMING_BYTES`.
HEADER_ONLY_SOURCES = ("pm",)

#: Traffic of one way below this share of the other's is the error of the model and not
#: traffic: the coefficient of requests, 0.0625, would have to be off by 8 % for more.
RESOLUTION = 0.005
#: Where the commands of traced copies are taken off: 0.01 % was left in all captures.
TRACED_RESOLUTION = 0.001

#: What watching itself causes: bytes received and sent for each sample, and each second. On an
#: idle H200 PM sampling, at 1 to 100 µs, wrote each sample to host memory, and each decode read
#: and wrote in bursts; each reading of NVML's counters went to the GPU and back (4360 of them).
OBSERVER_PER_SAMPLE = {"pm": (0.0, 92.0), "counters": (13.5e3, 16.9e3)}
OBSERVER_PER_SECOND = {"pm": (3.6e6, 4.4e6)}
#: The same for each second of fetching, where it is known when that was.
OBSERVER_PER_OWN_SECOND = {"pm": (13e6, 16e6)}
#: With NVLinks sampled as well, of 18 links: 1,337 to 1,368 bytes on two H100s.
OBSERVER_PER_SAMPLE_WITH_NVLINK = {"pm": (0.0, 1344.0)}
NONE = (0.0, 0.0)
#: Each copy fetches its commands and writes when it is done (16384 copies of 64 KiB and as
#: many of 4 KiB cost the same).
PER_OPERATION = (167.0, 68.0)


@dataclass(frozen=True, slots=True)
class WireModel:
    """How payload and wire belong together on one link.

    Attributes
    ----------
    matrix
        ``((rx per h2d, rx per d2h), (tx per h2d, tx per d2h))``: wire bytes for each
        byte of payload.
    per_sample, per_second, per_operation
        Wire bytes (rx, tx) that are no payload: for each sample, for each second in which the
        sampler may have used the link (`Counters.maybe_own`), and for each copy.
    others_per_second
        The same for each second, by what else lanescope reads of this GPU meanwhile.
    source
        Where the figures come from.
    residual
        Root mean square of what a fit leaves over, as a share of the bytes; None
        for a default.
    """

    matrix: tuple[tuple[float, float], tuple[float, float]]
    per_sample: tuple[float, float] = (0.0, 0.0)
    per_second: tuple[float, float] = (0.0, 0.0)
    per_operation: tuple[float, float] = (0.0, 0.0)
    source: str = "given"
    residual: float | None = None
    others_per_second: tuple[float, float] = (0.0, 0.0)

    def observed(
        self,
        seconds: FloatArray | float,
        samples: FloatArray | float,
        own_seconds: FloatArray | float | None = None,
    ) -> tuple[FloatArray, ...]:
        """Return what watching causes in some seconds: bytes (rx, tx).

        Parameters
        ----------
        samples
            How many were taken in them.
        own_seconds
            In how many of them the sampler may have used the link; None: in all.
        """
        taken = np.asarray(samples, np.float64)
        own = np.asarray(seconds if own_seconds is None else own_seconds)
        each = zip(self.per_sample, self.per_second, self.others_per_second, strict=True)
        return tuple(
            taken * sample + own * second + np.asarray(seconds) * other
            for sample, second, other in each
        )

    def solve(
        self, rx: FloatArray | float, tx: FloatArray | float
    ) -> tuple[FloatArray, FloatArray]:
        """Return payload (h2d, d2h) of wire bytes, exactly: it can come out below zero.

        What is not payload must have been taken off before. Errors cancel in sums of
        this, as they cannot once negative values were cut.
        """
        (a, b), (c, d) = self.matrix
        rx, tx = np.asarray(rx, np.float64), np.asarray(tx, np.float64)
        determinant = a * d - b * c
        return (d * rx - b * tx) / determinant, (a * tx - c * rx) / determinant


def settle(
    h2d: FloatArray, d2h: FloatArray, resolution: float = RESOLUTION
) -> tuple[FloatArray, FloatArray]:
    """Return payload without what cannot be told from none.

    Negative is 0, and so is what is below this share of the other way's traffic: an error
    of so much in the model would show it without any.
    """
    down, up = np.maximum(h2d, 0.0), np.maximum(d2h, 0.0)
    return (
        np.where(down < resolution * up, 0.0, down),
        np.where(up < resolution * down, 0.0, up),
    )


def default_model(
    source: str, link: PcieLink | None = None, *, own: bool = False, nvlink: bool = False
) -> WireModel:
    """Return the model that follows from the sizes of PCIe's packets.

    Parameters
    ----------
    source
        Of the counters: ``pm`` counts less of a packet than others, and its samples
        cause traffic of their own.
    link
        For the size of packets; 256 bytes where it is not known.
    own
        Whether the counters say when their sampler used the link.
    nvlink
        Whether the same sampler samples the GPU's NVLinks.
    """
    size = (link.max_payload_bytes if link else None) or DEFAULT_MAX_PAYLOAD_BYTES
    framing = 0 if source in HEADER_ONLY_SOURCES else FRAMING_BYTES
    request_bytes = REQUEST_HEADER_BYTES + framing
    usual = "" if link and link.max_payload_bytes else ", the usual size"
    return WireModel(
        (
            (1 + (COMPLETION_HEADER_BYTES + framing) / size, 0.0),
            (request_bytes / COPY_REQUEST_BYTES, 1 + request_bytes / size),
        ),
        (OBSERVER_PER_SAMPLE_WITH_NVLINK if nvlink else OBSERVER_PER_SAMPLE).get(source, NONE),
        (OBSERVER_PER_OWN_SECOND if own else OBSERVER_PER_SECOND).get(source, NONE),
        PER_OPERATION,
        f"default for PCIe packets of {size} bytes{usual}",
    )


#: Records that are worked on at once: 25 MB.
_CHUNK = 1 << 18


def payload_records(
    counters: Counters,
    model: WireModel,
    end_before_ns: int | None = None,
    operation_ends: IntArray | None = None,
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield the ends of records, and a row for each: payload h2d, d2h, known nanoseconds.

    Payload is exact in sums and can come out below zero, as `WireModel.solve` says.

    Parameters
    ----------
    end_before_ns
        Where the record before ended; None when there is none.
    operation_ends
        When traced copies of this GPU ended, ascending: each costs wire bytes that are no payload.
    """
    ends = np.empty(0, np.int64) if operation_ends is None else operation_ends
    others = model.per_sample, model.per_second, model.others_per_second, model.per_operation
    for part, start_ns in counters.pieces(_CHUNK):
        end_ns = counters.end_ns[part]
        before_ns = int(start_ns[0])
        if not part.start and end_before_ns is not None:
            before_ns = end_before_ns
        # each record is a sample, however long: its source may have had to lengthen the interval
        found = native.payload_of(
            end_ns,
            counters.rx_bytes[part],
            counters.tx_bytes[part],
            counters.known[part],
            None if counters.own is None else counters.own[part],
            before_ns,
            _ended(ends, int(start_ns[0]), end_ns),
            (*model.matrix, *others),
        )
        yield end_ns, found


def _ended(ends: IntArray, start_ns: int, end_ns: IntArray) -> IntArray | None:
    """Return how many of some times lie in each record, the first begun at a time; None: none."""
    first, stop = search(ends, start_ns, "right"), search(ends, int(end_ns[-1]), "right")
    if first == stop:
        return None
    found = np.zeros(end_ns.size, np.int64)
    for part in pieces_of(stop - first, _CHUNK):
        block = ends[first + part.start : first + part.stop]
        found += np.bincount(np.searchsorted(end_ns, block), minlength=end_ns.size)
    return found
