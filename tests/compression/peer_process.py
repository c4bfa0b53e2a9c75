"""The other process of tests of channels between processes: ``peer_process.py ROLE PATH GPU ...``.

``send`` and ``receive`` take all arrays of `ARRAYS`; ``die-sending`` and ``die-receiving`` end amid
the second one.
"""

from __future__ import annotations

import os
import sys
import warnings

with warnings.catch_warnings():  # of PyTorch's, about others
    warnings.simplefilter("ignore")
    import torch

from lanescope.compression.peer import PeerReceiver, PeerSender
from tests.compression.test_channel_gpu import made_up, same

#: Types and bytes: less than a slab, several, not a whole number of blocks, and none.
ARRAYS = [
    (torch.float32, 3 << 20),
    (torch.bfloat16, (40 << 20) + 4096 + 2),
    (torch.float64, 64 << 10),
    (torch.uint8, (9 << 20) + 7),
    (torch.int64, 0),
    (torch.float32, 100 << 20),
]
SHAPE = {"slab_bytes": "2MiB", "slots": 3}


def send(path: str, gpu: int, compression: str) -> None:
    with torch.cuda.device(gpu), PeerSender(gpu, path, compression=compression, **SHAPE) as channel:
        for seed, (dtype, size) in enumerate(ARRAYS):
            values = made_up(dtype, size, seed, gpu)
            channel.send(values)
            values.zero_()  # behind the sending


def receive(path: str, gpu: int, compression: str) -> None:
    with torch.cuda.device(gpu), PeerReceiver(gpu, path) as channel:
        for seed, (dtype, size) in enumerate(ARRAYS):
            assert same(channel.receive(), made_up(dtype, size, seed, gpu)), (dtype, size)


def die_sending(path: str, gpu: int, compression: str) -> None:
    channel = PeerSender(gpu, path, compression=compression, **SHAPE)
    channel.send(made_up(torch.float32, 1 << 20, 0, gpu))
    assert channel.last is not None
    line = channel._line
    assert line is not None
    shape = {"bytes": 64 << 20, "codec": None, "coded": "float32", "dimensionality": 1}
    channel.last.wait()
    line.tell({"number": 1, "dtype": "float32", "shape": [16 << 20], **shape})
    os._exit(1)


def die_receiving(path: str, gpu: int, compression: str) -> None:
    channel = PeerReceiver(gpu, path)
    channel.receive()
    assert channel.last is not None
    channel.last.wait()
    os._exit(1)


if __name__ == "__main__":
    roles = {
        "send": send,
        "receive": receive,
        "die-sending": die_sending,
        "die-receiving": die_receiving,
    }
    roles[sys.argv[1]](sys.argv[2], int(sys.argv[3]), sys.argv[4])
