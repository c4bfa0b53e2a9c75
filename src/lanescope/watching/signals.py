"""Signals of a watch: those that end it in order, and those that are its program's.

While no program takes them the first Ctrl-C or SIGTERM ends what is going on in order, by an
exception; the second ends lanescope at once, as if nothing handled it. What was measured lies on
the disk at any time. While a module is being loaded a signal waits: an import that is cut off
cannot be made again.

While a program runs it gets the signals that lanescope gets, as often as they were sent. It is in
our process group, as it would be without lanescope: what is sent to the group (by a terminal,
`timeout`, a shell's `kill %1`), or to every process of a job (by systemd, Slurm) reaches it anyway,
and only what was sent to lanescope alone is passed on. A signal does not say to whom it was sent.
So a witness stands in the group: a process that blocks all signals. What is pending there was sent
to more than us.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from lanescope.interruption import ENDING, Interrupted, again, is_importing, take

#: They tell of a fault in the process that gets them, of its own limits or its own pipes.
_OUR_OWN = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGABRT,
    signal.SIGSYS,
    signal.SIGPIPE,
    signal.SIGXFSZ,
}
#: Nobody can take these; a terminal sends SIGTTOU to whoever draws on it from the background.
_LEFT = {signal.SIGKILL, signal.SIGSTOP, signal.SIGTTOU}
#: Within this time a signal has reached every process that it was sent to.
_SETTLED_SECONDS = 0.003
_PIECE = 4096
#: As `ps` shows the witness.
_WITNESS = b"lanescope-group"


@contextmanager
def passing_on() -> Iterator[PassingOn]:
    """Let no signal end lanescope in the block; start the program in it, and wait for it.

    In other threads than the main one, which cannot handle signals, nothing is passed on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield PassingOn(None, None)
        return
    read, write = _pipe(os.getpid())
    _read_all(read)
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    handlers = _Handlers()
    handlers.take(ignored=False)
    witness = _Witness.start()
    try:
        yield PassingOn(read, witness, handlers)
    finally:
        signal.set_wakeup_fd(wakeup)
        handlers.bring_back()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if witness is not None:
            witness.end()


@functools.cache
def _pipe(process: int) -> tuple[int, int]:
    """Return the pipe where each signal of a process leaves a byte.

    It stays open: a handler that runs in another thread may write to it after the block, and its
    failure would be printed, or its byte stand in a file that has got the number.
    """
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    return read, write


def _read_all(pipe: int) -> list[int]:
    numbers: list[int] = []
    with suppress(BlockingIOError):
        while piece := os.read(pipe, _PIECE):
            numbers += piece
    return numbers


class PassingOn:
    """Waits for a program, and hands it signals meanwhile.

    Parameters
    ----------
    pipe
        One byte comes here for each signal; None where none can be handled.
    witness
        Tells what was sent to others, too; None where it could not be started.
    handlers
        Who handles signals meanwhile.
    """

    def __init__(
        self, pipe: int | None, witness: _Witness | None, handlers: _Handlers | None = None
    ) -> None:
        self._pipe, self._witness, self._handlers = pipe, witness, handlers

    def wait(self, program: subprocess.Popen[bytes]) -> int:
        """Return how a program ended, as `subprocess` tells it.

        Where it stops at a terminal, lanescope stops with it, so that the shell sees it.
        """
        if self._pipe is None or self._handlers is None:
            return program.wait()
        # Only now: the program was to inherit what is ignored, and what is blocked.
        self._handlers.take(ignored=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        with _ended(program.pid) as ended:
            ready = select.poll()
            for descriptor in (self._pipe, *ended):
                ready.register(descriptor, select.POLLIN)
            self._look(program)
            numbers: list[int] = []
            while program.returncode is None:
                ready.poll()
                numbers = self._arrived()
                if any(number != signal.SIGCHLD for number in numbers):
                    time.sleep(_SETTLED_SECONDS)
                    self._hand_on(program, numbers + self._arrived())
                self._look(program)
            if signal.SIGCHLD not in numbers:
                self._await_signal_of_end()
            return program.returncode

    def _await_signal_of_end(self) -> None:
        """Wait for the signal of the program's end, which another thread may be about to take.

        Python prints an error where a signal has no handler any more when its turn comes.
        """
        assert self._pipe is not None
        if signal.getsignal(signal.SIGCHLD) is _nothing and signal.SIGCHLD not in self._arrived():
            select.select([self._pipe], [], [], _SETTLED_SECONDS)

    def _arrived(self) -> list[int]:
        assert self._pipe is not None
        return _read_all(self._pipe)

    def _hand_on(self, program: subprocess.Popen[bytes], numbers: list[int]) -> None:
        group_signals: set[int] = set() if self._witness is None else self._witness.group_signals()
        for number in numbers:
            if number not in (signal.SIGCHLD, signal.SIGXCPU) and number not in group_signals:
                with suppress(ProcessLookupError, PermissionError):  # another user's by now
                    os.kill(program.pid, number)

    def _look(self, program: subprocess.Popen[bytes]) -> None:
        """Learn what became of the program; stop with it."""
        stopped = False
        while True:
            try:
                pid, status = os.waitpid(program.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:  # SIGCHLD is ignored, or somebody else has waited for it
                program.returncode = 0
                return
            if pid == 0:
                break
            stopped = os.WIFSTOPPED(status)
            if not stopped and not os.WIFCONTINUED(status):
                program.returncode = os.waitstatus_to_exitcode(status)
                return
        if stopped and _has_terminal():
            os.kill(os.getpid(), signal.SIGSTOP)


class _Handlers:
    """Handlers that do nothing: signals are read from a pipe."""

    def __init__(self) -> None:
        self._before: dict[int, signal._HANDLER] = {}

    def take(self, *, ignored: bool) -> None:
        """Handle signals, those that are ignored or the others, except where C code does."""
        for number in signal.valid_signals() - _OUR_OWN - _LEFT:
            now = signal.getsignal(number)
            if now is None or number in self._before or (now is signal.SIG_IGN) != ignored:
                continue
            self._before[number] = now
            signal.signal(number, _nothing)

    def bring_back(self) -> None:
        """Have all signals handled as before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Witness:
    """A process of our group where all signals stay pending; it ends when we do."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid, self._pipe = pid, pipe
        self._early: set[int] = set()

    @classmethod
    def start(cls) -> _Witness | None:
        """Start one; None where that cannot be."""
        read, write = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with warnings.catch_warnings():  # of other threads, whose locks the child never takes
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                _stand(read)
        except OSError:
            os.close(write)
            return None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(read)
        return cls(pid, write)

    def group_signals(self) -> set[int]:
        """Return what was sent to more processes than ours since the last call."""
        group_signals = self._early | self._pending()
        self._early = set()
        if group_signals and (fresh := _Witness.start()) is not None:  # what is pending stays so
            before = group_signals
            self._early = self._pending() - before
            self.end()
            self._pid, self._pipe = fresh._pid, fresh._pipe
        return group_signals

    def end(self) -> None:
        """End it."""
        os.close(self._pipe)
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)

    def _pending(self) -> set[int]:
        try:
            status = Path(f"/proc/{self._pid}/status").read_text(errors="replace")
        except OSError:
            return set()
        bits = int(status.partition("\nShdPnd:")[2].split(maxsplit=1)[0], 16)
        return {number for number in signal.valid_signals() if bits >> (number - 1) & 1}


def _stand(pipe: int) -> NoReturn:
    """Be a witness until the other end of the pipe is closed, with no other file open."""
    try:
        with suppress(OSError):
            os.write(os.open("/proc/self/comm", os.O_WRONLY), _WITNESS)
        os.closerange(0, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        os.read(pipe, 1)
    finally:
        os._exit(0)


@contextmanager
def _ended(pid: int) -> Iterator[list[int]]:
    """Yield a descriptor that tells of a process's end, where C code handles SIGCHLD, too."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # no such call here, or no descriptor left
        yield []
        return
    try:
        yield [descriptor]
    finally:
        os.close(descriptor)


def _nothing(_: int, __: FrameType | None) -> None:
    """Take no notice: a byte in the pipe tells of the signal."""


def _has_terminal() -> bool:
    """Return whether our session has a terminal, so that a shell looks after its jobs."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@contextmanager
def handling(
    numbers: Sequence[int], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Have `handler` called for some signals, and bring back what was there before.

    Who was told to ignore a signal (nohup, the background of a shell) goes on ignoring it.
    Threads other than the main one cannot handle signals: nothing changes there.
    """
    before = {}
    try:
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(ValueError):  # only the main thread may
                    before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def interruptible(*, ends_process: bool = False) -> Iterator[None]:
    """Have the first signal raise `Interrupted`, and the second end the process.

    Parameters
    ----------
    ends_process
        The first one ends the process, too, where a call of the driver keeps the main thread from
        it for long: there is nothing yet that would have to be put away.
    """

    def arrived(number: int, frame: FrameType | None) -> None:
        if is_importing(frame):
            return again(number)
        if ends_process and not take():
            return  # it is being ended
        _end_by_the_next()
        raise Interrupted(number)

    arrived.ends_process = ends_process  # type: ignore[attr-defined]

    with handling(ENDING, arrived):
        yield


@contextmanager
def deferred() -> Iterator[None]:
    """Raise `Interrupted` at the end of the block only: what it holds must be done whole."""
    arrived_signals: list[int] = []

    def arrived(number: int, _: FrameType | None) -> None:
        arrived_signals.append(number)
        _end_by_the_next()

    with handling(ENDING, arrived):
        yield
    if arrived_signals:
        _end_by_the_next()
        raise Interrupted(arrived_signals[0])


def _end_by_the_next() -> None:
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
