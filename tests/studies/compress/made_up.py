"""Results that nobody measured, and a device whose codecs do what a test wants."""

import numpy as np

from lanescope.compression.rule import DEFAULT_SLAB_BYTES
from lanescope.compression.stream import Codec
from lanescope.studies.compress.compressed import Compressed
from lanescope.studies.compress.results import ArrayResult, Measured, RawTimes

SIZE = 256 << 20


def measured(codec, *, ratio, compress, decompress, dimensionality=1, size=SIZE, device="cpu"):
    """One codec with its speeds in GB/s, the same six times, on one thread and on two."""
    timings = tuple(
        RawTimes(
            threads,
            size,
            (size / (compress * threads / 2) / 1e9,) * 6,
            (size / (decompress * threads / 2) / 1e9,) * 6,
        )
        for threads in (1, 2)
    )
    stored = round(size / ratio)
    return Measured(device, Codec(codec), dimensionality, stored, 1, 2, timings, size)


def array_result(*codecs, name="x", dtype="float32", dimensionalities=(), size=SIZE):
    return ArrayResult(name, dtype, (size // 4,), size, False, "", codecs, dimensionalities)


def compressed(*arrays, link=None, gpus=(), left_out=(), complete=True):
    """A whole result."""
    return Compressed(
        lanescope="1.2.3",
        cpu="a CPU",
        gpus=gpus,
        complete=complete,
        link=link,
        slab_bytes=DEFAULT_SLAB_BYTES,
        arrays=arrays,
        left_out=tuple(left_out),
    )


class FakeDevice:
    """Compresses by lanescope's own raw blocks, and says how long that took."""

    name = "fake"
    threads = (1, 4)

    def __init__(self, codecs=(Codec.RAW,), change=lambda out: None):
        self.codecs, self.change = codecs, change
        self.asked = []

    def takes(self, codec, dtype):
        return codec in self.codecs

    def compress(self, values, dtype, choice, threads):
        from lanescope.compression.codec import compress

        self.asked.append((choice, threads))
        stream = compress(values, "raw", dtype=dtype)
        return stream, 0.25

    def decompress(self, stream, out, threads):
        from lanescope.compression.codec import decompress

        decompress(stream, out=out)
        self.change(out.reshape(-1).view(np.uint8))
        return 0.125
