"""Cores of channels whose GPUs lie in the host's memory: they move bytes, and note what moved."""

from __future__ import annotations

import ctypes

import numpy as np

from lanescope._core import native
from tests.compression.gpu_stand_ins import Ticket
from tests.compression.stream_format import payload_spans

BLOCK = 64 << 10


def memory(address, size):
    """Return bytes at an address, as NumPy sees them."""
    if size == 0:
        return np.zeros(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


class Held:
    """What the core's parcel is to Python, for a stream of the host's codecs."""

    def __init__(self, values, codec, dtype):
        self.values, self.codec_used, self.dtype = values.copy(), codec, dtype
        self.bytes, self.compressed, self.evicted = len(values), codec is not None, False
        self.codec = codec or native.Codec.raw
        self.room = None

    def _stream(self):
        kind = self.dtype.name if self.dtype.name != "bytes" else "uint8"
        kind = "uint16" if kind == "bfloat16" else kind
        return native.compress(self.values.view(kind), self.codec, self.dtype)

    def stored_bytes(self):
        return len(self._stream()) if self.compressed else self.bytes

    def _front(self, stream):
        spans = payload_spans(stream)
        return spans[0][0] if spans else len(stream)

    def _require(self):
        if self.evicted:
            raise native.NativeError("parcel", 0, "bad values", "the parcel was evicted", "here")

    def stream_front(self, dtype):
        self._require()
        self.dtype = dtype if not self.compressed else self.dtype
        stream = self._stream()
        return stream[: self._front(stream)]

    def copy_payloads(self, first, last, out):
        stream = self._stream()
        spans = payload_spans(stream)[first:last]
        size = spans[-1][1] - spans[0][0]
        out[:size] = stream[spans[0][0] : spans[-1][1]]
        return size

    def evict(self):
        self.evicted = True


class Loaded(Held):
    """A parcel of a stream, which is there once its payloads are."""

    def __init__(self, front, stream_bytes):
        self.stream = np.zeros(stream_bytes, np.uint8)
        self.stream[: len(front)] = front
        self.front = len(front)
        self.bytes = int(front[8:16].view("<u8")[0])
        self.compressed, self.evicted = True, False
        self.codec, self.dtype = native.Codec.raw, None

    def _stream(self):
        return self.stream

    def payload_room(self):
        return self.stream[self.front :]

    @property
    def values(self):
        out = np.zeros(self.bytes, np.uint8)
        native.decompress(self.stream, out)
        return out


class HostCore:
    """A channel to the host. `moved` has what crossed the link, and how."""

    def __init__(self, *options):
        self.moved, self.tickets, self.order, self._later = [], [], [], {}

    def load(self, *given):
        """No kernels."""

    def offload(self, source, size, codec, dtype, dimensionality, stream, joins=True):
        held = Held(memory(source, size), codec, dtype)
        ticket = self._ticket("offload", size)

        def take():  # as late as it may be
            held.values[:] = memory(source, size)

        if not joins:
            held.values[:] = 0xEE
            self._later[ticket] = take
        return held, ticket

    def offload_pages(self, sources, sizes, codec, dtype, dimensionality, stream, joins=True):
        def gathered():
            pages = [memory(int(one), int(size)) for one, size in zip(sources, sizes, strict=True)]
            filled_up = [np.pad(page, (0, -len(page) % 16)) for page in pages]
            return np.concatenate([*filled_up, np.zeros(0, np.uint8)])

        held = Held(gathered(), codec, dtype)
        ticket = self._ticket("where they lie", held.bytes)
        if not joins:
            held.values[:] = 0xEE
            self._later[ticket] = lambda: held.values.__setitem__(slice(None), gathered())
        return held, ticket

    def restore(self, held, target, stream, base=0, joins=True):
        ticket = self._ticket("restore", held.bytes)
        if joins:
            held_values(held, memory(target, held.bytes))
        else:
            self._later[ticket] = lambda: held_values(held, memory(target, held.bytes))
        return ticket

    def join(self, ticket, stream):
        self.order.append("join")
        self._later.pop(ticket)()

    @property
    def is_joined(self):
        return not self._later

    def restore_parts(self, held, offsets, sizes, targets, stream):
        for offset, size, target in zip(offsets, sizes, targets, strict=True):
            memory(int(target), int(size))[:] = held.values[int(offset) : int(offset + size)]
        return self._ticket("parts", int(sizes.sum()))

    def restore_blocks(self, held, blocks, target, stream):
        values = held.values
        for place, block in enumerate(blocks.tolist()):
            some = values[block * BLOCK : (block + 1) * BLOCK]
            memory(target + place * BLOCK, len(some))[:] = some
        return self._ticket("blocks", len(blocks))

    def load_parcel(self, front, stream_bytes):
        return Loaded(front, stream_bytes)

    def trim(self, keep_bytes):
        return 12345 - keep_bytes

    def close(self):
        """Nothing is under way."""

    def _ticket(self, how, size):
        self.moved.append((how, size))
        self.order.append(how)
        self.tickets.append(Ticket(size, False))
        return self.tickets[-1]


def held_values(held, room):
    room[:] = held.values


class PeerCore(HostCore):
    """A channel to a GPU."""

    def send(self, source, target, size, codec, dtype, dimensionality, before, behind):
        memory(target, size)[:] = memory(source, size)
        return self._ticket("send", size)


class Copier:
    """Copies pages as the kernel does."""

    def __init__(self, gpu):
        self.gpu = gpu

    def copy(self, sources, targets, sizes, ctas, stream):
        for source, target, size in zip(sources, targets, sizes, strict=True):
            memory(int(target), int(size))[:] = memory(int(source), int(size))

    def gather(self, sources, sizes, room, ctas, stream):
        for source, size in zip(sources.tolist(), sizes.tolist(), strict=True):
            memory(room, size)[:] = memory(source, size)
            gap = -size % 16
            memory(room + size, gap)[:] = 0
            room += size + gap

    def scatter(self, room, targets, sizes, ctas, stream):
        for target, size in zip(targets.tolist(), sizes.tolist(), strict=True):
            memory(target, size)[:] = memory(room, size)
            room += size + -size % 16
