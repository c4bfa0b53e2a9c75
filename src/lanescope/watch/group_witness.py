"""Tells signals to the process group from signals to lanescope alone.

The kernel does not say it. So a second process of the same group waits with all signals blocked:
what it got at the same time went to all.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

#: A shell that signals a group, and a job system that signals each process of a job, are done by
#: then.
_TOGETHER_SECONDS = 0.02
#: It answers at once unless somebody has stopped or killed it.
_ANSWER_SECONDS = 1.0
#: For each byte that it reads it answers what signals it got since: a bit each, signal 1 lowest.
_PROGRAM = """
import os, _signal
every = _signal.valid_signals()
while os.read(0, 1):
    got = 0
    while one := _signal.sigtimedwait(every, 0):
        got |= 1 << one.si_signo - 1
    os.write(1, got.to_bytes(8, "little"))
"""


class GroupWitness:
    """A process of our group that sees what is sent to all of it; it ends with us."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        # blocked from its beginning on: it inherits that
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
            )
        except OSError:
            pass  # no process is left for it: then every signal is taken for lanescope's alone
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def saw(self, number: int) -> bool:
        """Whether a signal that lanescope has just got went to the whole group."""
        time.sleep(_TOGETHER_SECONDS)
        self._seen |= self._answer()
        if number not in self._seen:
            return False
        self._seen.remove(number)
        return True

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()  # it holds nothing
            self._process.communicate()
            self._process = None

    def _answer(self) -> set[int]:
        if self._process is None:
            return set()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            os.write(self._process.stdin.fileno(), b"?")
            if not select.select([self._process.stdout], [], [], _ANSWER_SECONDS)[0]:
                return set()
            bits = int.from_bytes(os.read(self._process.stdout.fileno(), 8), "little")
        except OSError:  # somebody has ended it
            return set()
        return {number for number in range(1, 65) if bits >> number - 1 & 1}
