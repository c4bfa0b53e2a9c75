"""What lanescope.torch.send and recv take in Python: without a GPU, and without a second process.

::

    python benchmarks/compress/send_calls.py [--calls 2000] [--cold]

A process group of PyTorch that does nothing (its own ``fake`` one) and a channel that does nothing
take the place of NCCL and of a channel between GPUs; headers come back to the process that sent
them. So what is left is Python: medians of single calls in microseconds, for tensors on a CPU that
count as a GPU's. ``torch`` is PyTorch's own call, which the others are to be held against; ``off``
and ``auto`` are tensors without a header, ``headers`` those of ``off`` that have one, ``on`` goes
by the channel.

With ``--cold`` other memory is written between the calls, as a program does between transfers: then
the code and its data are no longer in the processor's caches.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import deque
from operator import attrgetter
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

import lanescope.torch
from lanescope.compression.stream import Codec
from lanescope.compression.transfers import Record
from lanescope.torch import deciding, exchange, sides

MODES = ("torch", "off", "auto", "headers", "on")
OTHER = 1
UNTIMED = 256  # in which auto learns, and runs become long
_OTHER_MEMORY = torch.zeros(64 << 20, dtype=torch.uint8)


class Ticket:
    """A transfer that has ended."""

    seconds, why_raw, compressed = 1e-4, "", True

    def __init__(self, size: int) -> None:
        self.bytes = self.wire_bytes = size

    def done(self) -> bool:
        """Yes."""
        return True

    def damage(self) -> str:
        """None."""
        return ""


class Half:
    """Both halves of a channel that does nothing but say who comes next."""

    def __init__(self) -> None:
        self._said: deque[str | None] = deque()

    def announce(self, note: str) -> None:
        """Say a note."""
        self._said.append(note)

    def hear(self) -> str | None:
        """Return it; None where an array is next."""
        return self._said.popleft()

    def send_as(self, tensor: Any, transfer: Any, decision: Any) -> Record:
        """Send nothing."""
        self._said.append(None)
        return Record(transfer, decision, Ticket(transfer.bytes))

    def receive(self, out: Any) -> Any:
        """Receive nothing."""
        return out


def stand_in() -> None:
    """Let tensors on a CPU go as those on GPUs do, by what does nothing."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    exchange.CARRIERS = {"cpu": "fake"}
    exchange.may_lack_header = attrgetter("is_cpu")
    half = Half()
    exchange.Exchange._link = lambda *given, **more: half  # type: ignore[method-assign]


def one_pair(mode: str, tensor: torch.Tensor, cold: bool) -> tuple[float, float]:
    """Return the seconds of a send and of the recv of the same."""
    compression = {"headers": "off"}.get(mode, mode)
    seconds = []
    for sends in (True, False):
        if cold:
            _OTHER_MEMORY.add_(1)
        begun = time.perf_counter()
        if mode == "torch":
            dist.send(tensor, OTHER) if sends else dist.recv(tensor, OTHER)
        elif sends:
            lanescope.torch.send(tensor, OTHER, compression=compression)
        else:
            lanescope.torch.recv(tensor, OTHER)
        seconds.append(time.perf_counter() - begun)
    return seconds[0], seconds[1]


def measure(mode: str, calls: int, cold: bool) -> tuple[float, float]:
    """Return the medians of both in microseconds."""
    # A little shorter for each mode: what a program sends again and again is of a kind.
    tensors = [torch.zeros((16 << 20) - 16 * MODES.index(mode) - 1, dtype=torch.bfloat16)]
    if mode == "headers":  # each of another kind
        tensors = [tensors[0][16 * number :] for number in range(UNTIMED + calls)]
    if mode == "on":  # as of GPUs' tensors, of which nobody takes samples
        sides.cut = lambda *given: ()
        deciding._chosen = lambda *given: (Codec("zvc"), 1)
    pairs = [
        one_pair(mode, tensors[number % len(tensors)], cold) for number in range(UNTIMED + calls)
    ][UNTIMED:]
    send, recv = (statistics.median(one) * 1e6 for one in zip(*pairs, strict=True))
    return send, recv


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    stand_in()
    for mode in MODES:
        send, recv = measure(mode, given.calls, given.cold)
        print(f"{mode:8} send {send:6.1f}   recv {recv:6.1f} us", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
