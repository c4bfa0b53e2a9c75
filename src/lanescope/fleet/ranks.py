"""The processes of a fleet's check: which one this is, and how reports reach the first one.

There are no collective calls: a rank that dies, hangs or is late holds nobody up. Every message is
sent and received by a deadline.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from lanescope import interruption
from lanescope.errors import InputError, LanescopeError, MissingPartError

#: Where launchers say how many processes there are, and which one of its node a process is.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_LOCAL = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
#: Of a message that has begun to come.
_REST_SECONDS = 5.0
#: What was written less than this before a job is ended, a launcher may not pass on.
_FORWARDED_SECONDS = 0.3
_TAG, _ORDER, _ANSWER, _DATA = 17, 18, 19, 20
#: How long at most, and which part of the time waited so far, until it is looked again.
_POLL_SECONDS, _POLL_SHARE = 0.005, 0.05


class Ranks(Protocol):
    """The processes of a check.

    Attributes
    ----------
    rank, size
        Which of how many this is; 0 collects.
    """

    @property
    def rank(self) -> int: ...  # noqa: D102 - see the class

    @property
    def size(self) -> int: ...  # noqa: D102

    def send(self, message: bytes, deadline: float) -> bool:
        """Send to rank 0; whether it has arrived by a time on the monotonic clock."""

    def received(self, deadline: float) -> Iterator[tuple[int, bytes]]:
        """Yield what other ranks send until all have, or until the deadline."""

    def leave(self, code: int, *, complete: bool) -> None:
        """End this process's part; without the others where not all are there any more."""

    def give_up(self, error: LanescopeError) -> None:
        """Say what went wrong and end the job, where there is one: others may wait for us."""


@dataclass(frozen=True, slots=True)
class Alone:
    """One process without MPI."""

    rank: int = 0
    size: int = 1

    def send(self, message: bytes, deadline: float) -> bool:
        """Nobody is there to send to."""
        raise AssertionError("a single rank collects")

    def received(self, deadline: float) -> Iterator[tuple[int, bytes]]:
        """Nobody sends."""
        return iter(())

    def leave(self, code: int, *, complete: bool) -> None:
        """Nobody waits."""

    def give_up(self, error: LanescopeError) -> None:
        """Nobody waits."""


class MpiRanks:
    """Processes that MPI has started."""

    def __init__(self, mpi: Any) -> None:
        self._mpi = mpi
        self._world = mpi.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()
        self._under_way: list[Any] = []

    def send(self, message: bytes, deadline: float) -> bool:
        """Send to rank 0."""
        request = self._world.Isend([message, self._mpi.BYTE], dest=0, tag=_TAG)
        return _until(request.Test, deadline)

    def received(self, deadline: float) -> Iterator[tuple[int, bytes]]:
        """Yield what other ranks send."""
        return self._messages(_TAG, set(range(self.size)) - {self.rank}, deadline)

    def _messages(self, tag: int, wanted: set[int], deadline: float) -> Iterator[tuple[int, bytes]]:
        """Yield one message of each of some ranks, as they come, until the deadline."""
        while wanted and (found := self._next(tag, self._mpi.ANY_SOURCE, deadline)) is not None:
            if found[0] in wanted:
                wanted.discard(found[0])
                yield found

    def _next(self, tag: int, source: int, deadline: float) -> tuple[int, bytes] | None:
        """Return the next message of a kind and who sent it; None where none comes in time."""
        status = self._mpi.Status()
        if not _until(lambda: self._world.Iprobe(source, tag, status), deadline):
            return None
        sender, content = status.Get_source(), bytearray(status.Get_count(self._mpi.BYTE))
        request = self._world.Irecv([content, self._mpi.BYTE], source=sender, tag=tag)
        # it is here, or on its way: the deadline may be over
        done = _until(request.Test, max(deadline, time.monotonic() + _REST_SECONDS))
        return (sender, bytes(content)) if done else None

    def order(self, rank: int, message: bytes) -> None:
        """Tell another rank what to do next; it need not be there to take it."""
        self._keep(self._world.Isend([message, self._mpi.BYTE], dest=rank, tag=_ORDER), message)

    def next_order(self, deadline: float) -> bytes | None:
        """Return what rank 0 wants next; None where it says nothing by the deadline."""
        found = self._next(_ORDER, 0, deadline)
        return None if found is None else found[1]

    def answer(self, message: bytes, deadline: float) -> bool:
        """Say to rank 0 what came of an order."""
        request = self._world.Isend([message, self._mpi.BYTE], dest=0, tag=_ANSWER)
        return _until(request.Test, deadline)

    def next_answer(self, deadline: float) -> tuple[int, bytes] | None:
        """Return the next answer of any rank, and which; None where none comes in time."""
        return self._next(_ANSWER, self._mpi.ANY_SOURCE, deadline)

    def answers(self, wanted: Collection[int], deadline: float) -> Iterator[tuple[int, bytes]]:
        """Yield the answers of some ranks, until all have answered, or until the deadline."""
        return self._messages(_ANSWER, set(wanted), deadline)

    def exchange(self, partner: int, out: bytearray, back: bytearray, deadline: float) -> bool:
        """Send to a rank and receive as much from it; whether both ended by the deadline."""
        world, byte = self._world, self._mpi.BYTE
        requests = [
            world.Irecv([back, byte], source=partner, tag=_DATA),
            world.Isend([out, byte], dest=partner, tag=_DATA),
        ]
        while not self._mpi.Request.Testall(requests):
            if time.monotonic() >= deadline:
                self._keep(requests, (out, back))
                return False
            time.sleep(0)  # where there are more ranks than cores
        return True

    def _keep(self, request: Any, memory: Any) -> None:
        """Hold the memory of a message that may still be under way."""
        self._under_way = [one for one in self._under_way if not _arrived(one[0])]
        self._under_way.append((request, memory))

    def leave(self, code: int, *, complete: bool) -> None:
        """End MPI: together, or where a rank is gone by ending the job."""
        if not complete:
            self._abort(code)
        self._mpi.Finalize()
        interruption.calls_libraries_at_end()
        if self.rank != 0:  # launchers end who is still there when rank 0 ends with a code
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def give_up(self, error: LanescopeError) -> NoReturn:
        """Say what went wrong and end the job."""
        print(f"lanescope: {error}", file=sys.stderr, flush=True)
        self._abort(error.exit_code)

    def _abort(self, code: int) -> NoReturn:
        time.sleep(_FORWARDED_SECONDS)
        with suppress(Exception):
            self._world.Abort(code)
        os._exit(code)  # where the launcher leaves us


def _until(holds: Callable[[], bool], deadline: float) -> bool:
    """Wait until something holds; whether it does by the deadline. At once it is tried once."""
    began = time.monotonic()
    while not holds():
        now = time.monotonic()
        if now >= deadline:
            return False
        time.sleep(min(_POLL_SECONDS, (now - began) * _POLL_SHARE))
    return True


def _arrived(requests: Any) -> bool:
    every = requests if isinstance(requests, list) else [requests]
    return all(request.Test() for request in every)


def ranks_here(environment: Mapping[str, str] = os.environ) -> Ranks:
    """Return the processes that this one belongs to; itself alone where no launcher started it.

    Raises
    ------
    MissingPartError
        If there are several and mpi4py is not installed, or is of another MPI.
    """
    size = _number(environment, _SIZES)
    if size is None or size < 2:
        return Alone()
    try:
        import mpi4py  # type: ignore[import-not-found,unused-ignore]

        mpi4py.rc.threads = False
        mpi4py.rc.finalize = False  # which waits for ranks that may be gone
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise MissingPartError(
            f"{size} processes were started, and mpi4py cannot be loaded ({why}); install it with "
            "pip install 'lanescope[mpi]'"
        ) from error
    found = MpiRanks(MPI)
    if found.size != size:
        raise MissingPartError(
            f"{size} processes were started, and mpi4py knows of {found.size}: it was built for "
            "another MPI than the launcher's; install mpi4py for that one"
        )
    return found


def is_first_of_node(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process measures its node: others on the same node do nothing."""
    named = "LANESCOPE_HOST" in environment  # nodes that are none, in tests and containers
    return named or not _number(environment, _LOCAL)


def _number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        if name in environment:
            try:
                return int(environment[name])
            except ValueError:
                raise InputError(
                    f"{name} is {environment[name]!r}, and should be a number; the launcher sets it"
                ) from None
    return None
