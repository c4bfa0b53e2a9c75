"""The stream as docs/compression-format.md has it, in plain integers."""

import numpy as np

BLOCK = 64 << 10
HEADER = 40
_MASK, _GOLDEN, _MIX = (1 << 64) - 1, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def part(word, place):
    """One word's part of a checksum."""
    x = word ^ ((place + 1) * _GOLDEN & _MASK)
    x = (x ^ x >> 32) * _MIX & _MASK
    return x ^ x >> 29


def checksum_sum(values):
    """The sum of parts of which half is kept."""
    data = np.ascontiguousarray(values).tobytes()
    padded = np.frombuffer(data + b"\0" * (-len(data) % 8), np.uint64)
    total = part(len(data), _MASK - 1)
    return total + sum(part(int(word), place) for place, word in enumerate(padded)) & _MASK


def checksum(values, place=0):
    """The checksum of bytes, and of the part of a block's place."""
    return ((checksum_sum(values) + place) * _GOLDEN & _MASK) >> 32


def place_of(array, block):
    """The part that binds a block to an array."""
    return part(array, (1 << 63) + block)


def array_number(stream):
    """What blocks of a stream are bound to."""
    if stream[4] >= 5:
        return int.from_bytes(stream[30:36].tobytes(), "little")
    head = stream[: head_bytes(stream)].copy()
    head[16:24] = head[36:40] = 0
    return checksum_sum(head)


def head_bytes(stream):
    """Bytes of the header and the shape."""
    return HEADER + 8 * int(stream[28])


def blocks_in(stream):
    return int(stream[24:28].view("<u4")[0])


def table_of(stream):
    """What a stream says of each block, a view: size and mode, checksum."""
    begin = head_bytes(stream)
    return stream[begin : begin + 8 * blocks_in(stream)].view("<u4").reshape(-1, 2)


def payload_spans(stream):
    """Begin and end of each block's payload, with what fills it up."""
    begin = head_bytes(stream) + 8 * blocks_in(stream)
    begin, spans = -(-begin // 16) * 16, []
    for size in (table_of(stream)[:, 0] & 0xFFFFFF).tolist():
        spans.append((begin, begin + -(-size // 16) * 16))
        begin = spans[-1][1]
    return spans


def exchanged(stream, one, other):
    """The stream with two whole blocks in each other's place."""
    table, spans = table_of(stream).copy(), payload_spans(stream)
    payloads = [stream[begin:end] for begin, end in spans]
    for part_ in (table, payloads):
        part_[one], part_[other] = (np.copy(part_[other]), np.copy(part_[one]))
    front = stream[: spans[0][0]].copy()
    begin = head_bytes(stream)
    front[begin : begin + table.nbytes] = table.view(np.uint8).reshape(-1)
    return np.concatenate([front, *payloads])


def numbered(stream, values, number):
    """The stream as one of version 5, whose blocks are bound to a transfer's number."""
    changed = stream.copy()
    changed[4] = 5
    changed[30:36] = np.frombuffer(number.to_bytes(6, "little"), np.uint8)
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    for block, entry in enumerate(table_of(changed)):
        some = data[block * BLOCK : (block + 1) * BLOCK]
        entry[1] = checksum(some, place_of(number, block))
    return sealed(changed)


def sealed(stream, version=None):
    """The stream with a header whose checksum fits, as of another version if one is given."""
    changed = stream.copy()
    if version is not None:
        changed[4] = version
    changed[36:40] = 0
    front = head_bytes(changed)
    if changed[4] >= 3:
        front += 8 * blocks_in(changed)
    fits = checksum(changed[:front])
    changed[36:40] = np.frombuffer(fits.to_bytes(4, "little"), np.uint8)
    return changed
