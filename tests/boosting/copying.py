"""Cases of `lanescope.to_gpu` and `to_host` over the driver for tests: run as a program."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any

import numpy as np

import lanescope
from lanescope.boosting.arrays import copy_to_host
from tests.boosting import mock_frameworks as mock

MIB = 1 << 20


def some(size: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def sizes() -> None:
    """Bytes of all sizes, both frameworks, both GPUs, new and given arrays."""
    for seed, size in enumerate((0, 1, 4096, 262143, 262144, 3 * MIB + 1, 20 * MIB + 4097)):
        values = some(size, seed)
        there = lanescope.to_gpu(values, gpu=seed % 2)
        assert (type(there), there.gpu, there.content()) == (
            mock.CupyArray, seed % 2, values.tobytes(),
        )  # fmt: skip
        back = lanescope.to_host(there)
        assert type(back) is np.ndarray
        assert (back.dtype, back.tobytes()) == (values.dtype, values.tobytes())
        tensor = sys.modules["torch"].empty((size,), "torch.uint8", "cpu")
        assert lanescope.to_host(there, tensor) is tensor
        assert tensor.content() == values.tobytes()
        moved = lanescope.to_gpu(tensor)
        assert (type(moved), moved.gpu) == (mock.Tensor, 0)
        again = lanescope.to_host(moved)
        assert (type(again), again.content()) == (mock.Tensor, values.tobytes())
    matrix = np.arange(3 * MIB, dtype=np.float32).reshape(3, MIB)
    there = sys.modules["torch"].empty((3, MIB), "torch.float32", "cuda:1")
    assert lanescope.to_gpu(matrix, there) is there
    assert there.content() == matrix.tobytes()


def order() -> None:
    """Behind what the current stream was given, before what it is given later."""
    for own in (False, True):
        stream = mock.streams[0] = mock.new_stream() if own else 0
        values, size = some(4 * MIB, 5), 4 * MIB
        expected = values.tobytes()
        there = sys.modules["torch"].empty((size,), "torch.uint8", "cuda:0")
        for _ in range(20):  # lags behind
            mock.fill(there.address, 1, size, stream)
        lanescope.to_gpu(values, there)
        values[:] = 0  # it has returned
        assert there.content() == expected
        for _ in range(20):
            mock.fill(there.address, 2, size, stream)
        assert lanescope.to_host(there).content() == b"\2" * size
        lanescope.to_gpu(values, there)
        mock.fill(there.address, 3, size, stream)
        assert there.content() == b"\3" * size


def pinned() -> None:
    """The driver copies pinned memory behind the call; ours returns when that is over."""
    values, back = mock.pinned(2 * MIB), mock.pinned(2 * MIB)
    values[:] = some(2 * MIB, 6)
    expected = values.tobytes()
    mock.streams[0] = mock.new_stream()
    there = lanescope.to_gpu(values)
    values[:] = 0
    assert there.content() == expected
    lanescope.to_host(there, back)
    assert back.tobytes() == expected


def threads() -> None:
    """Threads that have no context, on both GPUs, each in a stream of its own framework."""
    wrong: list[str] = []

    def copy(seed: int) -> None:
        values = some(MIB, seed)
        for _ in range(4):
            there = lanescope.to_gpu(values, gpu=seed % 2)
            if lanescope.to_host(there).tobytes() != values.tobytes():
                wrong.append(f"bytes of {seed}")
        context = ctypes.c_void_p()
        mock.call("cuCtxGetCurrent", ctypes.byref(context))
        if context.value is not None:
            wrong.append(f"context of {seed}")

    running = [threading.Thread(target=copy, args=(seed,)) for seed in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong, wrong


def refused() -> None:
    """What fails is a sentence, and harms nothing."""
    there = lanescope.to_gpu(some(MIB, 1))
    stream = mock.streams[0] = mock.new_stream()
    mock.call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), 0)
    say(lambda: lanescope.to_host(there))
    say(lambda: lanescope.to_gpu(some(MIB, 2), there))
    mock.streams[0] = mock.new_stream()  # another thread's copies harm no capture
    values = mock.pinned(MIB)
    lanescope.to_gpu(values, there)
    lanescope.to_host(there, values)
    lanescope.to_host(there)
    graph = ctypes.c_void_p()
    mock.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
    mock.streams[0] = 0
    sound = there.nbytes
    there.nbytes, there.shape = 2 * sound, (2 * sound,)  # more than was allocated
    say(lambda: lanescope.to_host(there))
    there.nbytes, there.shape = sound, (sound,)
    say(lambda: copy_to_host(1, 2, 3, 0, 7))
    sys.stdout.flush()
    if os.fork() == 0:
        say(lambda: lanescope.to_host(there))
        sys.stdout.flush()
        os._exit(0)
    os.wait()


def say(does: Any) -> None:
    try:
        does()
        print("no error")
    except lanescope.LanescopeError as error:
        print(type(error).__name__, error, sep=": ")


if __name__ == "__main__":
    mock.begin()
    globals()[sys.argv[1]]()
    print("well")
