"""Results that nobody measured, and a device whose codecs do what a test wants."""

import numpy as np

from lanescope.compression.device import Choice
from lanescope.compression.stream import Codec
from lanescope.studies.compress.results import ArrayResult, Measured, Timing

SIZE = 256 << 20


def measured(codec, *, ratio, compress, decompress, dimensionality=1, size=SIZE, device="cpu"):
    """One codec with its speeds in GB/s, the same six times, on one thread and on two."""
    timings = tuple(
        Timing(
            threads,
            size,
            (size / (compress * threads / 2) / 1e9,) * 6,
            (size / (decompress * threads / 2) / 1e9,) * 6,
        )
        for threads in (1, 2)
    )
    choice = Choice(Codec(codec), dimensionality)
    return Measured(device, choice, size, round(size / ratio), 1, 2, timings)


def array_result(*codecs, name="x", dtype="float32", dimensionalities=(), size=SIZE):
    return ArrayResult(name, dtype, (size // 4,), size, False, "", codecs, dimensionalities)


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
