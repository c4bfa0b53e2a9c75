"""What a sender says before it sends a tensor, without PyTorch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lanescope.compression.stream import Codec
from lanescope.torch.ranks import (
    HEADER_BYTES,
    NOTE_BYTES,
    Header,
    looks_like_header,
    pack_note,
    read_note,
)

ONE = Header("bfloat16", (3, 5, 7), 210, 64, True)


@pytest.mark.parametrize(
    "header",
    [
        ONE,
        replace(ONE, piece_bytes=0, timed=False),
        Header("complex128", (), 16, 0, False),
        Header("float8_e4m3fnuz", (2,) * 8, 256, 1 << 26, False),
        Header("uint8", (0, 4), 0, 0, True),
        replace(ONE, codec="gfc", dimensionality=32),
        replace(ONE, plain_after=32),
        *(replace(ONE, codec=str(codec)) for codec in Codec),
    ],
)
def test_a_header_comes_back_as_it_was(header: Header) -> None:
    packed = header.pack()
    assert len(packed) == HEADER_BYTES
    assert Header.read(packed + b"more") == header


def test_more_than_eight_dimensions_become_one() -> None:
    said = Header.read(Header("float32", (2,) * 9, 2048, 0, False).pack())
    assert said is not None
    assert said.shape == (512,)
    assert said.size == 2048


def test_each_bit_of_it_counts() -> None:
    packed = ONE.pack()
    meant = HEADER_BYTES * 8
    unread = 0
    for bit in range(meant):
        changed = bytearray(packed)
        changed[bit // 8] ^= 1 << bit % 8
        unread += Header.read(bytes(changed)) is None
    assert (
        unread == (8 + 2 + 24 + 64 + 8 + 12 + 2 + 2 + 4) * 8
    )  # the rest is zeros that nobody reads


def test_values_are_seldom_a_header() -> None:
    assert not looks_like_header(b"")
    assert not looks_like_header(ONE.pack()[:-1])
    assert not looks_like_header(bytes(HEADER_BYTES))
    assert looks_like_header(ONE.pack())


@pytest.mark.parametrize("size", [0, 1, 1 << 40])
def test_a_note_comes_back(size: int) -> None:
    packed = pack_note(size)
    assert len(packed) == NOTE_BYTES
    assert read_note(packed) == size
    assert read_note(b"\x01" + packed[1:]) in (None, 1)
    assert read_note(bytes([packed[0] ^ 2]) + packed[1:]) is None


def test_pieces_and_what_fits() -> None:
    assert ONE.pieces == 4
    assert replace(ONE, piece_bytes=0).pieces == 0
    assert ONE.fits("bfloat16", 105)
    assert not ONE.fits("float16", 105)
    assert not ONE.fits("bfloat16", 104)
