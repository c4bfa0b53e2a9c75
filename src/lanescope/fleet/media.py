"""What two nodes exchange data through: host memory, GPUs by host memory, or NCCL.

Each node sends to its partner and receives as much from it at the same time. What arrives is
compared with what was sent. GPUs are used by processes of their own, which may fail or hang: the
rank ends them, says why, and goes on with the next partner.
"""

from __future__ import annotations

import mmap
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from lanescope._core import native
from lanescope.engine.core import reason_for
from lanescope.engine.process import ChildProcess, GpuProcess, Message, start
from lanescope.errors import NotMeasuredError
from lanescope.fleet.ranks import MpiRanks
from lanescope.units.sizes import bandwidth_gbs

#: A pair is given up after so long: it, and whoever of it does not answer, is not measured. GPUs
#: have longer, as CUDA and NCCL begin with the first exchange.
PAIR_SECONDS, GPU_SECONDS = 10.0, 45.0
#: What is exchanged first, to find a size that takes long enough, and the bounds of that.
_FIRST_BYTES, _MOST_BYTES = 256 << 10, 64 << 20
_EXCHANGE_SECONDS = 0.01
_REPEATS = 5
#: GPUs' memory passes through the host's in pieces, so that copies and network overlap.
_PIECE_BYTES = 4 << 20
_NCCL_FIRST_BYTES, _NCCL_MOST_BYTES = 4 << 20, 256 << 20
_ID_BYTES = 128
_SEED = 0x5EED
#: What host memory sends, again and again.
_CONTENT = bytes(range(256)) * 4096


class Medium(StrEnum):
    """What pairs of nodes exchange data through."""

    HOST = "host"
    """From host memory to host memory, by MPI."""
    GPU = "gpu"
    """From GPU to host, by MPI to the other host, and to its GPU."""
    NCCL = "nccl"
    """Each GPU with that of the same place in the other node, all at once, by NCCL."""
    RDMA = "rdma"
    """By perftest: imported, not measured here."""


@dataclass(frozen=True, slots=True)
class ExchangeReport:
    """What a rank says of an exchange.

    Attributes
    ----------
    bytes, seconds
        Of one exchange in each direction, of all GPUs together; every repetition. Empty
        where it did not end.
    gpus
        GB/s of each GPU by NCCL.
    wrong
        Bytes that arrived other than they were sent.
    why
        Why there is nothing, where that is known.
    """

    partner: int
    bytes: int = 0
    seconds: tuple[float, ...] = ()
    gpus: tuple[float, ...] = ()
    wrong: int = 0
    why: str = ""


class RankExchange(ABC):
    """Exchanges data with other ranks.

    Attributes
    ----------
    seconds
        What one exchange may take.
    """

    seconds: float

    def __init__(self, ranks: MpiRanks) -> None:
        self._ranks = ranks
        self._deadline = 0.0

    def with_partner(self, partner: int) -> ExchangeReport:
        """Exchange with a rank; without times where one of both cannot, or does not answer."""
        self._deadline = time.monotonic() + self.seconds
        why = ""
        try:
            own = self._made_ready()
        except native.NativeError as error:
            own, why = 0, str(reason_for(*error.args).error)
        except NotMeasuredError as error:
            own, why = 0, str(error)
        if not own:
            self.end()  # what has begun in part is begun again with the next partner
        try:
            there = self._swapped(partner, own, 1)
            if not own or not there:
                return ExchangeReport(partner, why=why)
            return self._measured(partner, min(own, there))
        except native.NativeError as error:
            self.end()
            return ExchangeReport(partner, why=str(reason_for(*error.args).error))
        except (NotMeasuredError, TimeoutError) as error:
            self.end()
            return ExchangeReport(
                partner, why=str(error) if isinstance(error, NotMeasuredError) else ""
            )

    @abstractmethod
    def _made_ready(self) -> int:
        """Begin, where that was not done before; return with how many GPUs (1 without)."""

    @abstractmethod
    def _measured(self, partner: int, gpus: int) -> ExchangeReport:
        """Exchange, again and again."""

    def end(self) -> None:  # noqa: B027 - most have nothing to end
        """End processes, and give memory back."""

    def _swapped(self, partner: int, number: int, size: int = 8) -> int:
        """Send a number to a partner and return its own."""
        mine, theirs = bytearray(number.to_bytes(size, "little")), bytearray(size)
        self._swap(partner, mine, theirs)
        return int.from_bytes(theirs, "little")

    def _swap(self, partner: int, out: Any, back: Any) -> None:
        if not self._ranks.exchange(partner, out, back, self._deadline):
            raise TimeoutError

    def _agreed_size(self, partner: int, size: int, seconds: float, bounds: tuple[int, int]) -> int:
        """Return how much both exchange at a time: the smaller of what suits each."""
        least, most = bounds
        wanted = min(max(int(size * _EXCHANGE_SECONDS / seconds), least), most)
        return min(wanted, self._swapped(partner, wanted))


class _ByMpi(RankExchange):
    """What MPI carries."""

    def _measured(self, partner: int, gpus: int) -> ExchangeReport:
        for _ in range(2):  # the first one finds the way
            first = self._timed(partner, _FIRST_BYTES)
        size = self._agreed_size(partner, _FIRST_BYTES, first, (_FIRST_BYTES, _MOST_BYTES))
        seconds = tuple(self._timed(partner, size) for _ in range(_REPEATS))
        return ExchangeReport(partner, size, seconds, wrong=self._wrong(size))

    def _timed(self, partner: int, size: int) -> float:
        self._swapped(partner, 1, 1)  # both are there
        begin = time.perf_counter()
        self._exchanged(partner, size)
        return time.perf_counter() - begin

    @abstractmethod
    def _exchanged(self, partner: int, size: int) -> None:
        """Send so many bytes and receive as many."""

    @abstractmethod
    def _wrong(self, size: int) -> int:
        """Return how many bytes of the last exchange are other than were sent."""


class HostMemory(_ByMpi):
    """From host memory to host memory."""

    def __init__(self, ranks: MpiRanks) -> None:
        super().__init__(ranks)
        self.seconds = PAIR_SECONDS
        self._sent, self._received = bytearray(), bytearray()

    def _made_ready(self) -> int:
        return 1

    def _exchanged(self, partner: int, size: int) -> None:
        self._swap(partner, self._sent, self._received)

    def _timed(self, partner: int, size: int) -> float:
        if len(self._sent) != size:
            self._sent = bytearray((_CONTENT * (size // len(_CONTENT) + 1))[:size])
        self._received = bytearray(size)
        return super()._timed(partner, size)

    def _wrong(self, size: int) -> int:
        if self._received == self._sent:
            return 0
        both = (np.frombuffer(one, np.uint8) for one in (self._received, self._sent))
        return int(np.count_nonzero(np.not_equal(*both)))


class GpuMemory(_ByMpi):
    """From the first GPU to the host, by MPI to the other host, and to its first GPU.

    Pieces follow each other: while one is on the network, the next one leaves the GPU.
    """

    def __init__(self, ranks: MpiRanks) -> None:
        super().__init__(ranks)
        self.seconds = GPU_SECONDS
        self._process: ChildProcess | None = None
        self._pages: mmap.mmap | None = None

    def _made_ready(self) -> int:
        if self._process is None:
            self._process = _with_gpus()[0]
            file = os.memfd_create("lanescope")
            try:
                os.ftruncate(file, 2 * _MOST_BYTES)
                self._pages = mmap.mmap(file, 2 * _MOST_BYTES)
                self._process.done({"do": "stage", "device": 0, "size": _MOST_BYTES}, [file])
            finally:
                os.close(file)
        return 1

    def _exchanged(self, partner: int, size: int) -> None:
        assert self._process is not None
        assert self._pages is not None
        process, pages = self._process, memoryview(self._pages)
        pieces = [(at, min(_PIECE_BYTES, size - at)) for at in range(0, size, _PIECE_BYTES)]
        for begin, length in pieces:
            process.ask({"do": "to_host", "begin": begin, "size": length})
        for begin, length in pieces:
            process.answer()
            there = _MOST_BYTES + begin
            self._swap(partner, pages[begin : begin + length], pages[there : there + length])
            process.ask({"do": "to_device", "begin": begin, "size": length})
        for _ in pieces:
            process.answer()

    def _wrong(self, size: int) -> int:
        assert self._process is not None
        return int(self._process.done({"do": "staged_check", "size": size})[0]["mismatches"])

    def end(self) -> None:
        """End the GPU's process."""
        process, self._process = self._process, None
        if process is not None:
            process.end()


class NcclGpus(RankExchange):
    """Each GPU with that of the same place in the other node, all at once, by NCCL."""

    def __init__(self, ranks: MpiRanks) -> None:
        super().__init__(ranks)
        self.seconds = GPU_SECONDS
        self._processes: list[ChildProcess] = []

    def _made_ready(self) -> int:
        if not self._processes:
            self._processes = _with_gpus(every=True)
            self._new_id()  # what is wrong with NCCL is said now
        for process in self._processes:
            process.connection.settimeout(self.seconds)
        return len(self._processes)

    def _new_id(self) -> bytes:
        made = self._processes[0].done({"do": "nccl_id"})
        return bytes.fromhex(made[0]["id"])

    def _measured(self, partner: int, gpus: int) -> ExchangeReport:
        used, side = self._processes[:gpus], int(self._ranks.rank > partner)
        own, there = bytearray(self._new_id()), bytearray(_ID_BYTES)
        self._swap(partner, own, there)
        of_both = {"do": "join", "id": (there if side else own).hex()}
        _all(used, [of_both | _as_rank(n, side, gpus) for n in range(gpus)])
        first = self._times(partner, used, side, _NCCL_FIRST_BYTES, 2)
        bounds = (_FIRST_BYTES, _NCCL_MOST_BYTES)
        size = self._agreed_size(partner, _NCCL_FIRST_BYTES, max(map(min, first)), bounds)
        times = self._times(partner, used, side, size, _REPEATS)
        wrong = sum(one["mismatches"] for one in _all(used, [{"do": "check"}] * gpus))
        _all(used, [{"do": "drop", "owner": True}] * gpus)
        rates = tuple(bandwidth_gbs(size, median(one)) for one in times)
        seconds = tuple(map(max, zip(*times, strict=True)))
        return ExchangeReport(partner, size * gpus, seconds, rates, wrong)

    def _times(
        self, partner: int, used: Sequence[GpuProcess], side: int, size: int, windows: int
    ) -> list[list[float]]:
        """Return for each GPU the seconds of each exchange of so many bytes."""
        peers = [number + (1 - side) * len(used) for number in range(len(used))]
        transfers = [[[peer, size, _SEED]] for peer in peers]
        _all(
            used,
            [
                {"do": "operate", "sends": one, "receives": one, "reduced_bytes": 0}
                for one in transfers
            ],
        )
        self._swapped(partner, 1, 1)
        answers = _all(used, [{"do": "run", "windows": windows, "loops": 1}] * len(used))
        return [[b - a for a, b in pairwise(one["boundaries"][0])] for one in answers]

    def end(self) -> None:
        """End the GPUs' processes: those that wait for a partner by force."""
        processes, self._processes = self._processes, []
        for process in processes:
            process.kill()
            process.end()


def _as_rank(number: int, side: int, gpus: int) -> Message:
    return {"ranks": 2 * gpus, "rank": side * gpus + number, "device": number}


def _with_gpus(*, every: bool = False) -> list[ChildProcess]:
    """Start a process for the first GPU, or for each."""
    first = start("g0")
    try:
        count = first.done({"do": "devices"})[0]["count"]
    except BaseException:
        first.end()
        raise
    others = [start(f"g{number}") for number in range(1, count if every else 1)]
    return [first, *others]


def _all(processes: Sequence[GpuProcess], messages: Sequence[Message]) -> list[Message]:
    """Send each process its message, and return the answers."""
    for process, message in zip(processes, messages, strict=True):
        process.ask(message)
    return [process.answer()[0] for process in processes]


def exchange_through(medium: Medium, ranks: MpiRanks) -> RankExchange:
    """Return what exchanges data through a medium."""
    made: dict[Medium, Callable[[MpiRanks], RankExchange]]
    made = {Medium.HOST: HostMemory, Medium.GPU: GpuMemory, Medium.NCCL: NcclGpus}
    return made[medium](ranks)
