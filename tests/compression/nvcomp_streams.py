"""Streams with blocks that nvCOMP might have coded, made on the host: the chunks are made up."""

import numpy as np

from lanescope._core import native
from tests.compression.stream_format import (
    BLOCK,
    array_number,
    checksum,
    checksum_sum,
    place_of,
    sealed,
)

CODECS = {"ans": 4, "bitcomp": 5}
RAW, CONSTANT, CODED = range(3)
VERSION = 6000


def padded(data):
    return data + b"\0" * (-len(data) % 16)


def chunk_payload(chunk, codec, dtype, block_bytes, version=VERSION):
    """A payload as docs/compression-format.md has it: checksum, what it is, and the chunk."""
    about = version | CODECS[codec] << 16 | number(dtype) << 24 | block_bytes << 32
    rest = about.to_bytes(8, "little") + chunk
    return checksum_sum(np.frombuffer(rest, np.uint8)).to_bytes(8, "little") + rest


def number(dtype):
    return list(native.Dtype).index(native.Dtype["bytes" if dtype == "uint8" else dtype])


def stream_of(values, codec, dtype, payloads, version=3):
    """The stream of an array whose blocks have these (mode, payload), of one dimension."""
    data = np.ascontiguousarray(values).view(np.uint8)
    blocks = [data[begin : begin + BLOCK] for begin in range(0, len(data), BLOCK)]
    behind = b"".join(padded(payload) for _, payload in payloads)
    shape = values.size.to_bytes(8, "little")
    front_bytes = len(padded(bytes(40) + shape + bytes(8 * len(blocks))))
    header = b"LSCZ" + bytes([version, CODECS[codec], number(dtype), 1])
    header += len(data).to_bytes(8, "little")
    header += (front_bytes + len(behind)).to_bytes(8, "little")
    header += len(blocks).to_bytes(4, "little") + bytes([1, 0, 0, 0]) + bytes(8)
    array = array_number(np.frombuffer(header + shape, np.uint8))
    told = b"".join(
        (mode << 24 | len(payload)).to_bytes(4, "little")
        + checksum(block, place_of(array, i) if version >= 3 else 0).to_bytes(4, "little")
        for i, ((mode, payload), block) in enumerate(zip(payloads, blocks, strict=True))
    )
    return sealed(np.frombuffer(padded(header + shape + told) + behind, np.uint8))
