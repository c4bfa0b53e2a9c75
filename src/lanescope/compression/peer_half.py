"""What the two halves of a channel between processes have in common."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any

from lanescope._core import native
from lanescope.compression import meeting
from lanescope.compression.deciding import Decider
from lanescope.compression.transfers import Log, Logged, Ticket
from lanescope.errors import InputError, LanescopeError

_LOGGED = 1000
#: For what the other process had done before it ended, to come to its end here.
GRACE_SECONDS = 0.2
_LOOK_SECONDS = 0.001


class Watched:
    """A transfer that may be lost with the other process; `tell` is called where that is raised."""

    def __init__(self, ticket: Ticket, tell: Callable[[], None]) -> None:
        self._ticket, self._tell = ticket, tell
        self.begun = time.monotonic()
        self.lost = ""

    @property
    def seconds(self) -> float:
        """What it took on the GPU."""
        return self._ticket.seconds

    @property
    def bytes(self) -> int:
        """Of the array."""
        return self._ticket.bytes

    @property
    def wire_bytes(self) -> int:
        """What crossed the link."""
        return self._ticket.wire_bytes

    @property
    def compressed(self) -> bool:
        """Whether it was."""
        return self._ticket.compressed

    @property
    def why_raw(self) -> str:
        """Why it was not, although it was to be."""
        return self._ticket.why_raw

    def done(self) -> bool:
        """Return whether it has ended."""
        return self._ticket.done()

    def damage(self) -> str:
        """Return what was lost or damaged; empty if nothing."""
        return self.lost or self._ticket.damage()

    def wait(self, patience_s: float) -> None:
        """Return when it has ended; raises `LanescopeError` where it was lost."""
        try:
            self._ticket.wait(patience_s)
        except native.NativeError:
            if not self.lost:
                raise
        if self.lost:
            self._tell()
            raise LanescopeError(f"{self.lost}; send it again over a new channel")


class Half(Logged):
    """What the halves have: the core's, the line to the other process, and what is under way."""

    _who: str

    def __init__(self, gpu: int, decider: Decider, patience_seconds: float) -> None:
        self._gpu, self._patience = gpu, patience_seconds
        self._log = Log(decider, _LOGGED)
        self._lock = Lock()
        self._under_way: deque[Watched] = deque()
        self._core: Any = None
        self._line: meeting.Line | None = None
        self._closed = False
        self._why_lost = ""
        self._loss_raised = False
        self._ended_without_word = False
        self._takes = False

    def close(self) -> None:
        """Wait for what is under way, and for the other process to close its half, or to end.

        Raises
        ------
        LanescopeError
            If something was lost or came in damaged of which nobody was told.
        """
        if self._closed:
            return
        self._closed = True
        line = self._line
        if self._core is not None and line is not None:
            self._core.detach()
            with suppress(LanescopeError):  # it may have ended
                line.tell({"over": True})
            # it uses this process's memory until then
            line.wait_for_end(self._patience)
            line.close()
            self._core = None
        self._settle()

    def finish(self, patience_seconds: float) -> None:
        """Wait for what is under way, and say to the other process that no more comes.

        For the end of a process, which does not wait for the other one's as `close` does.

        Raises
        ------
        LanescopeError
            If something was lost or came in damaged of which nobody was told.
        """
        if self._closed or self._line is None:
            return
        self._wait_for_transfers(patience_seconds)
        with suppress(LanescopeError):  # it may have ended
            self._line.tell({"over": True})
        self._settle()

    def _settle(self) -> None:
        """Raise what was lost or damaged, unless the caller was told of the channel's end."""
        try:
            self._log.settle()
        except LanescopeError as error:
            if not (self._loss_raised and str(error).startswith(self._why_lost)):
                raise

    def _tell_loss(self) -> None:
        self._loss_raised = True

    def _watch(self, ticket: Ticket) -> Watched:
        watched = Watched(ticket, self._tell_loss)
        with self._lock:
            while self._under_way and self._has_ended(self._under_way[0]):
                self._under_way.popleft()
            self._under_way.append(watched)
            if self._why_lost:
                watched.lost = self._why_lost
        return watched

    @staticmethod
    def _has_ended(watched: Watched) -> bool:
        try:
            return watched.done()
        except native.NativeError:  # whoever waits for it is told
            return True

    def _ended(self, over: bool) -> None:
        """Take in that the other process has said that it is over, or has ended without that."""
        # What it had done comes to its end here some microseconds later, and is not lost.
        self._ended_without_word = not over
        self._wait_for_transfers(GRACE_SECONDS)
        if not over and not self._still_comes():
            self._lose("has ended")
        elif self._who == "receiving" and not self._closed:  # and takes nothing more
            self._lose("has closed the channel")

    def _still_comes(self) -> bool:
        """Whether the other process, which has ended, has sent what is to be received yet."""
        with self._lock:
            if any(not self._has_ended(one) for one in self._under_way):
                return False
        waiting = () if self._line is None else self._line.waiting
        withdrawn = any("withdrawn" in one for one in waiting)
        return self._who == "sending" and not withdrawn and (bool(waiting) or self._takes)

    def _wait_for_transfers(self, patience_seconds: float) -> None:
        """Return when what is under way has ended, or the channel was given up, or it is late."""
        late = time.monotonic() + patience_seconds
        while not self._why_lost and time.monotonic() < late:
            with self._lock:
                if all(self._has_ended(one) for one in self._under_way):
                    return
            time.sleep(_LOOK_SECONDS)

    def _lose(self, why: str) -> None:
        """Let this GPU go on where it waits for the other process, of which `why` tells."""
        self._break(f"the {self._who} process {why} amid the transfer")

    def _failure(self, error: LanescopeError) -> LanescopeError:
        """Let both GPUs go on: this process could not do what was announced. Return what to raise.

        Where the channel has been given up meanwhile, the reason for that.
        """
        if self._why_lost:
            return self._loss()
        assert self._line is not None
        with suppress(LanescopeError):  # it may have ended
            self._line.tell({"withdrawn": True})
        self._line.close()
        self._break("a transfer could not be put on the GPU's streams")
        return error

    def _break(self, why: str) -> None:
        with self._lock:
            core = self._core
            if self._why_lost or core is None:
                return
            self._why_lost = why
            for watched in self._under_way:
                if not self._has_ended(watched):
                    watched.lost = why
        core.give_up()

    def _look(self) -> None:
        """Give up where a transfer takes longer than the patience."""
        with self._lock:
            late = [
                one
                for one in self._under_way
                if time.monotonic() - one.begun > self._patience and not self._has_ended(one)
            ]
        if late:
            self._lose(f"was late by more than {self._patience:g} s")

    def _require_open(self) -> None:
        if self._closed:
            raise InputError("the channel is closed; make a new one")
        if self._why_lost:
            raise self._loss()

    def _loss(self) -> LanescopeError:
        self._loss_raised = True
        return LanescopeError(f"{self._why_lost}; make a new channel")

    def _agree(self, line: meeting.Line, others: bytes) -> None:
        """Attach the other process's memory; both say whether they could."""
        why = ""
        try:
            self._core.attach(others)
        except native.NativeError as error:
            why = f"{error.args[0]} failed: {error.args[3]}"
        line.tell({"attached": why})
        said = str(line.hear(self._patience)["attached"])
        if why or said:
            where = f"this process ({why})" if why else f"the {self._who} process ({said})"
            raise LanescopeError(
                f"the GPUs of the two processes cannot use each other's memory: {where}; send by "
                "other means, as torch.distributed"
            )
