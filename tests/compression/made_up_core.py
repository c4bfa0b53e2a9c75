"""A core whose GPUs lie in the host's memory: values are kept, times are made up."""

from types import SimpleNamespace

import numpy as np

from lanescope._core import native

#: GB/s that it tells of.
ENCODE_GBS, DECODE_GBS, LINK_GBS = 500.0, 800.0, 50.0
#: Of each transfer, besides its bytes.
FIRST_SECONDS = 10e-6


class Array:
    """An array in a GPU's memory."""

    def __init__(self, core, gpu, size):
        if core.room is not None and size > core.room:
            name = "cudaErrorMemoryAllocation"
            raise native.NativeError("cudaMalloc", 2, name, "out of memory", "here")
        self.gpu, self.bytes = gpu, size
        self.data = np.zeros(size, np.uint8)
        self.pointer = len(core.arrays)
        core.arrays.append(self)

    def set(self, value):
        self.data[:] = value

    def fill_from(self, values):
        self.data[:] = np.resize(values, self.bytes)

    def compare(self, values):
        wrong = np.flatnonzero(self.data != np.resize(values, self.bytes))
        return len(wrong), int(wrong[0]) if len(wrong) else 0


class MadeUpCore:
    """Takes the place of the compiled core.

    Parameters
    ----------
    ratio
        What compressing brings; a link takes the time of what is left.
    change
        Does something to every array that was decoded.
    room
        Most bytes of an array; None: no limit.
    why_raw
        Why transfers are not compressed.
    """

    RestoreBy, Via = native.RestoreBy, native.Via
    sms_that_fill = staticmethod(native.sms_that_fill)

    def __init__(self, ratio=2.0, change=lambda data: None, room=None, why_raw=""):
        self.ratio, self.change, self.room, self.why_raw = ratio, change, room, why_raw
        self.arrays, self.asked, self.open = [], [], 0

    def DeviceArray(self, gpu, size):  # noqa: N802
        return Array(self, gpu, size)

    def time_array_codec(self, source, out, codec, kind, dimensionality, sms, repeats):
        self.asked.append((codec, kind, dimensionality, sms))
        self._copy(source, out, coded=True)
        share = (sms or 132) / 132
        return SimpleNamespace(
            encode_s=[source.bytes / (ENCODE_GBS * share) / 1e9] * repeats,
            decode_s=[source.bytes / (DECODE_GBS * share) / 1e9] * repeats,
            payload_bytes=int(source.bytes / self.ratio),
        )

    def HostChannel(self, *options):  # noqa: N802
        self.open += 1
        return _Channel(self)

    def DeviceChannel(self, *options):  # noqa: N802
        self.open += 1
        return _Channel(self)

    def _copy(self, source, out, *, coded):
        out.data[:] = source.data
        if coded:
            self.change(out.data)


class _Channel:
    def __init__(self, core):
        self.core = core

    def prepare(self, size):
        """Nothing is pinned."""

    def offload(self, source, size, codec, kind, dimensionality, stream):
        parcel = SimpleNamespace(source=self.core.arrays[source], coded=codec is not None)
        return parcel, self._ticket(size, parcel.coded)

    def restore(self, parcel, target, stream):
        self.core._copy(parcel.source, self.core.arrays[target], coded=parcel.coded)
        return self._ticket(parcel.source.bytes, parcel.coded)

    def send(self, source, target, size, codec, kind, dimensionality, before, behind):
        where = self.core.arrays[target]
        assert where.gpu == 1
        self.core._copy(self.core.arrays[source], where, coded=codec is not None)
        return self._ticket(size, codec is not None)

    def close(self):
        self.core.open -= 1

    def _ticket(self, size, coded):
        compressed = coded and not self.core.why_raw
        wire = int(size / self.core.ratio) if compressed else size
        return SimpleNamespace(
            wait=lambda patience: None,
            seconds=FIRST_SECONDS + wire / LINK_GBS / 1e9,
            compressed=compressed,
            wire_bytes=wire,
            why_raw=self.core.why_raw,
        )
