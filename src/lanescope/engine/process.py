"""Processes that do what they are sent, the connection to those of this node, and its messages."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from lanescope._core import native
from lanescope.errors import NotMeasuredError

#: The module that a process runs.
WORKER = "lanescope.engine.worker"
#: Longer than anything that a process does at once: filling memory, or a run behind a gate.
ANSWER_SECONDS = 60.0
#: How long a process may take to end by itself.
_END_SECONDS = 5.0
#: What a process has in its environment unless that says otherwise: NCCL makes no multicast
#: objects, which have put hosts out of service.
_USUAL = {"NCCL_NVLS_ENABLE": "0"}
#: A message is one packet; the longest ones hold the times of all windows of a run.
_MOST_BYTES = 1 << 18
_MOST_DESCRIPTORS = 4

Message = dict[str, Any]


class GpuProcess(ABC):
    """A process for one GPU, of this node or another.

    Attributes
    ----------
    name
        Such as ``the process of g1``.
    lost
        Whether it has ended or does not answer.
    node
        Which of several nodes it runs on; None for this one.
    clock_error_seconds
        How well its clock is known; 0 for ours.
    """

    name: str
    lost: bool
    node: int | None
    clock_error_seconds: float

    @abstractmethod
    def ask(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message without waiting for the answer.

        Raises
        ------
        NotMeasuredError
            If the process has ended.
        """

    @abstractmethod
    def answer(self) -> tuple[Message, list[int]]:
        """Return the answer to the last message.

        Raises
        ------
        NativeError
            If the core has failed there.
        NotMeasuredError
            If the process has ended, or does not answer.
        """

    def done(self, message: Message, descriptors: Sequence[int] = ()) -> tuple[Message, list[int]]:
        """Send a message and return its answer."""
        self.ask(message, descriptors)
        return self.answer()

    def synchronise(self) -> None:  # noqa: B027 - one on this node has its clock
        """Find out how its clock differs from ours, so that its answers are in our time."""

    @abstractmethod
    def is_alive(self) -> bool:
        """Whether it can be asked."""

    @abstractmethod
    def end(self) -> None:
        """End it, by force where it does not end by itself."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, whatever it does."""


class ChildProcess(GpuProcess):
    """A process of this node, and the connection to it."""

    def __init__(
        self, name: str, connection: socket.socket, child: subprocess.Popen[bytes]
    ) -> None:
        self.name, self.connection, self.child = name, connection, child
        self.lost, self.node, self.clock_error_seconds = False, None, 0.0

    def ask(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message; see `GpuProcess.ask`."""
        try:
            send(self.connection, message, list(descriptors))
        except OSError as error:
            raise self._lost(error) from error

    def answer(self) -> tuple[Message, list[int]]:
        """Return the answer to the last message; see `GpuProcess.answer`."""
        message, descriptors = self.next_message()
        require_done(message)
        return message, descriptors

    def next_message(self) -> tuple[Message, list[int]]:
        """Return what it has answered, an error of the core as any other answer."""
        try:
            return received(self.connection)
        except (EOFError, OSError) as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> NotMeasuredError:
        self.lost = True
        if isinstance(error, TimeoutError):
            return no_answer(self.name, self.connection.gettimeout() or 0)
        return NotMeasuredError(f"{self.name} has ended.", "Look at dmesg for what ended it.")

    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return not self.lost and self.child.poll() is None

    def end(self) -> None:
        """End it: by closing its connection, else by force."""
        self.connection.close()
        try:
            self.child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def kill(self) -> None:
        """End it at once."""
        self.child.kill()


def require_done(answer: Message) -> None:
    """Raise the error of the core that an answer tells of."""
    if answer["error"] is not None:
        call, code, *words = answer["error"]
        raise native.NativeError(call, int(code), *words)


def no_answer(name: str, seconds: float) -> NotMeasuredError:
    """Return the error for a process that does not answer in time."""
    return NotMeasuredError(f"{name} did not answer in {seconds:.0f} s.")


def start(owner: str) -> ChildProcess:
    """Start a process that waits for messages; `owner` is the GPU whose process it is."""
    ours, theirs = socket_pair()
    with theirs:
        child = subprocess.Popen(
            [sys.executable, "-m", WORKER, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what NCCL says where it is asked to is no part of a report
            env={**_USUAL, **os.environ},
        )
    ours.settimeout(ANSWER_SECONDS)
    return ChildProcess(f"the process of {owner}", ours, child)


def clocks_text(processes: Sequence[GpuProcess]) -> list[str]:
    """Return a phrase on how well clocks of other nodes are known; none where all are of this."""
    others = [process for process in processes if process.node is not None]
    for process in others:
        process.synchronise()
    worst = max((process.clock_error_seconds for process in others), default=0.0)
    return [f"clocks of other nodes known to {worst * 1e6:.0f} µs"] if others else []


def answers_of(processes: Sequence[GpuProcess]) -> list[Message]:
    """Return every process' answer; where one fails the others are waited for, too."""
    found, failure = [], None
    for process in processes:
        try:
            found.append(process.answer()[0])
        except (native.NativeError, NotMeasuredError) as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return found


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection that keeps messages apart."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _MOST_BYTES)
    return ours, theirs


def send(to: socket.socket, message: Message, descriptors: list[int] | None = None) -> None:
    """Send a message; the descriptors are copied to the other process.

    Raises
    ------
    OSError
        If the other process has ended.
    """
    socket.send_fds(to, [json.dumps(message).encode()], descriptors or [])


def received(source: socket.socket) -> tuple[Message, list[int]]:
    """Return the next message and its descriptors, which the caller closes.

    Raises
    ------
    EOFError
        If the other process has ended.
    OSError
        If nothing comes in time, or the connection is broken.
    """
    content, descriptors, *_ = socket.recv_fds(source, _MOST_BYTES, _MOST_DESCRIPTORS)
    if not content:
        raise EOFError
    return json.loads(content), list(descriptors)
