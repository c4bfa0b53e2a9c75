"""What Ctrl-C and SIGTERM do to the command line, from its first moment to its last.

A signal becomes an exception, so that a run folder is finished on the way out, with three
exceptions of its own:

- While modules are being loaded it waits: an import that is cut off cannot be made again.
- Before the verbs are loaded there is nothing to finish, and the process ends at once.
- Where the main thread does not come to it (a call of the driver, say), or does not get through
  with finishing, the process is ended. Whatever is stored lies on the disk whole at any time.

Nothing is imported here that the interpreter has not loaded anyway, and an import of this module
changes nothing.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM)
KILLED = 128
#: A main thread that has not taken the signal by then will not come to it in time.
TAKEN_SECONDS = 0.7
#: After so long a run folder that is still being finished is left as it is.
FINISHED_SECONDS = 3.0
#: A signal to a whole group and one to its leader are one.
_SAME_SECONDS = 0.25
_AGAIN_SECONDS = 0.01
_IMPORTING = "<frozen importlib._bootstrap>"


def begin() -> None:
    """Have the process's first SIGINT or SIGTERM end it in order; call it first of all."""
    _process.begin()


def began_at() -> float | None:
    """Return when the process began, on the monotonic clock; None where no command line runs."""
    return _process.began_at


def note_run_folder(folder: str) -> None:
    """Note which run folder holds what was measured, for who is told of an interruption."""
    _process.run_folder = folder


def run_folder() -> str | None:
    """Return the folder that was noted, if it is still there: with --no-store it is removed."""
    folder = _process.run_folder
    return folder if folder is not None and os.path.isdir(folder) else None


def verbs_are_loaded() -> None:
    """From now on a signal is an exception: KeyboardInterrupt, or SystemExit with 143."""
    _process.raises = True


def is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being loaded where a signal has come."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False


def take() -> bool:
    """Take a signal, as a handler that raises and is not this module's; False: it is too late.

    The handler says by an attribute `ends_process` that the process may be ended where the main
    thread does not come to it.
    """
    return _process.take()


def again(number: int) -> None:
    """Have a signal's handler called again in a moment; for those that come at a bad one."""
    _thread.start_new_thread(_call_again, (number,))


def end_now(number: int) -> NoReturn:
    """End the process with one sentence and what a shell tells of the signal."""
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(2, b"\r\x1b[K\x1b[?25h")  # a progress bar has hidden the cursor
    try:
        os.write(2, b"lanescope: interrupted\n")
    finally:
        os._exit(KILLED + number)


def calls_libraries_at_end() -> None:
    """Have `leave` call what C libraries do at a process's end.

    MPICH 5 tells its launcher only then that a rank has ended well; of one that has not, the
    launcher kills all others, and the job ends with 9.
    """
    _process.calls_libraries = True


def leave(code: int) -> NoReturn:
    """End the process now that all is written; what it holds of GPUs goes with it.

    The interpreter would take the memory apart first, piece by piece, and a signal that comes
    meanwhile would be told as a traceback.
    """
    import atexit

    _process.leaves = True
    atexit._run_exitfuncs()  # folders for the time being
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # whoever reads it has gone
            pass
    if _process.calls_libraries:
        import ctypes

        ctypes.PyDLL(None).exit(code)
    os._exit(code)


def _call_again(number: int) -> None:
    time.sleep(_AGAIN_SECONDS)
    _thread.interrupt_main(signal.Signals(number))


class Interrupted(KeyboardInterrupt):
    """Somebody wants lanescope to end.

    Attributes
    ----------
    number
        Of the signal.
    exit_code
        As a shell tells it: 130 after Ctrl-C, 143 after SIGTERM.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.exit_code = KILLED + number


class _Process:
    """How far the end of this process has come."""

    def __init__(self) -> None:
        self.began_at: float | None = None
        self.raises = False
        self.leaves = False
        self.calls_libraries = False
        self.run_folder: str | None = None
        self._taken_at: float | None = None
        #: Of whoever takes the first signal: this module's handler, or what watches it.
        self._taken = _thread.allocate_lock()

    def begin(self) -> None:
        """Install the handlers, as far as signals are not ignored, and what watches them."""
        self.began_at = time.monotonic()
        try:
            handled = [n for n in ENDING if signal.getsignal(n) is not signal.SIG_IGN]
            for number in handled:
                signal.signal(number, self.arrived)
            read, write = os.pipe()
            os.set_blocking(write, False)
            signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        except ValueError:  # only the main thread may
            return
        sys.unraisablehook = self._swallowed
        _thread.start_new_thread(self._watch, (read,))

    def arrived(self, number: int, frame: FrameType | None) -> None:
        """Take a signal; the first one ends what goes on, another one ends the process."""
        if self.leaves:
            return
        if not self.raises:
            end_now(number)
        if self._taken_at is not None:
            if time.monotonic() - self._taken_at > _SAME_SECONDS:
                end_now(number)
            return
        if is_importing(frame):
            return again(number)
        if not self.take():
            return  # the process is ended already
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(KILLED + number)

    def take(self) -> bool:
        """Take a signal; False if the process is being ended for it."""
        if not self._taken.acquire(blocking=False):
            return False
        self._taken_at = time.monotonic()
        return True

    def _swallowed(self, report: sys.UnraisableHookArgs) -> None:
        """Raise an interruption once more that a destructor has swallowed."""
        if self._taken_at is None or not isinstance(
            report.exc_value, (KeyboardInterrupt, SystemExit)
        ):
            sys.__unraisablehook__(report)
            return
        self._taken_at = None
        self._taken.release()
        interrupted = isinstance(report.exc_value, KeyboardInterrupt)
        again(signal.SIGINT if interrupted else signal.SIGTERM)

    def _watch(self, pipe: int) -> None:
        """Wait beside the main thread for a signal, and see to it that the process ends."""
        while True:
            number = os.read(pipe, 1)[0]
            handler = signal.getsignal(number)
            if handler == self.arrived or getattr(handler, "ends_process", False):
                break  # else it is another's: a watched program's
        time.sleep(TAKEN_SECONDS)
        if not self._taken.acquire(blocking=False):
            time.sleep(FINISHED_SECONDS - TAKEN_SECONDS)
        end_now(number)


_process = _Process()
