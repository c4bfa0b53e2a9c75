"""A process that does what it is sent, and the connection to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from lanescope._core import native
from lanescope.engine.messages import Message, received, send, socket_pair
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


@dataclass
class Process:
    """A process for one GPU, and the connection to it.

    Attributes
    ----------
    name
        Such as ``the process of g1``.
    lost
        Whether it has ended or does not answer.
    """

    name: str
    connection: socket.socket
    child: subprocess.Popen[bytes]
    lost: bool = False

    def ask(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message without waiting for the answer."""
        try:
            send(self.connection, message, list(descriptors))
        except OSError as error:
            raise self._lost(error) from error

    def answer(self) -> tuple[Message, list[int]]:
        """Return the answer to the last message.

        Raises
        ------
        NativeError
            If the core has failed there.
        NotMeasuredError
            If the process has ended, or does not answer.
        """
        try:
            message, descriptors = received(self.connection)
        except (EOFError, OSError) as error:
            raise self._lost(error) from error
        if message["error"] is not None:
            call, code, *words = message["error"]
            raise native.NativeError(call, int(code), *words)
        return message, descriptors

    def done(self, message: Message, descriptors: Sequence[int] = ()) -> tuple[Message, list[int]]:
        """Send a message and return its answer."""
        self.ask(message, descriptors)
        return self.answer()

    def _lost(self, error: Exception) -> NotMeasuredError:
        self.lost = True
        if isinstance(error, TimeoutError):
            return NotMeasuredError(
                f"{self.name} did not answer in {self.connection.gettimeout() or 0:.0f} s."
            )
        return NotMeasuredError(f"{self.name} has ended.", "Look at dmesg for what ended it.")

    def end(self) -> None:
        """End it: by closing its connection, else by force."""
        self.connection.close()
        try:
            self.child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def start(name: str) -> Process:
    """Start a process that waits for messages."""
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
    return Process(name, ours, child)


def answers_of(processes: Sequence[Process]) -> list[Message]:
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
