"""The exceptions that lanescope raises on purpose, and its exit codes, which scripts act on.

::

    LanescopeError
    ├── InputError        what the user gave cannot be used  (exit code 2)
    │   └── MissingPartError     this machine lacks a part that it needs  (exit code 4)
    └── NotMeasuredError  a path of this machine cannot be measured now
        ├── BusyError            because other processes use it
        └── NotApplicableError   because there is no such number here

Every message is one sentence that says what is wrong, where, and what to do. It names an argument
as its option on a command line, by its name in Python:

>>> f"{argument.kernel_seconds} is missing"
'kernel_seconds is missing'
>>> with naming_options():
...     f"{argument.kernel_seconds} is missing"
'--kernel is missing'

And what does something: a command there, a call here.

>>> f"{command('model fit')} measures them"
'lanescope.fit() measures them'
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

#: How the loader says that a library has no room.
_NO_ROOM_FOR_LIBRARY = ("failed to map segment", "cannot map zero-fill pages")
#: Options that are not called as their argument.
_OPTIONS = {
    "budget_seconds": "--budget",
    "codecs": "--codec",
    "d2h_bytes": "--d2h",
    "everything": "--all",
    "h2d_bytes": "--h2d",
    "hashes": "--hash",
    "kernel_parts": "--kernel-part",
    "kernel_seconds": "--kernel",
    "kernel_watches": "--kernel-watch",
    "largest": "--max",
    "memory_gbs": "--memory-bandwidth",
    "program": "a program after --",
    "python_bytes": "--python",
    "smallest": "--min",
    "sources": "--source",
    "trace": "--trace always",
}
#: What Python programs call in place of a command.
CALLS = {
    "advise -- PROGRAM": "watch(PROGRAM, kernels=True)",
    "bench host": "taruc(benchmarks='host')",
    "bench sweep": "sweep()",
    "check": "check()",
    "model fit": "fit()",
    "model fit RUN": "fit(run=RUN)",
    "model fit {}": "fit(run={!r})",
    "model predict --parameters NAME": "predict(parameters=NAME)",
    "model predict --parameters {}": "predict(parameters={!r})",
    "model validate": "validate()",
    "model validate RUN": "validate(run=RUN)",
    "model validate {}": "validate(run={!r})",
    "topo": "topo()",
    "watch --kernels -- PROGRAM": "watch(PROGRAM, kernels=True)",
}
#: Whether a command line is carried out: it is of the process, as its standard streams are.
_on_command_line = False


class ExitCode(IntEnum):
    """The exit codes of every verb but those that end as the program does that they run."""

    OK = 0
    """Nothing is wrong with what was measured."""
    SLOW = 1
    """A path is slower than it should be, an output is wrong, or a condition does not hold."""
    INPUT = 2
    """An argument, a file or a folder cannot be used; or the output cannot be written."""
    NOT_MEASURED = 3
    """With ``--strict``: something could not be measured."""
    NOT_AS_EXPECTED = 4
    """The machine lacks something that ``--expect``, ``--expect-gpus`` or the request needs."""
    BUSY = 5
    """With ``--strict``: something was not measured only because other processes use it."""
    FAULT = 70
    """A fault of lanescope's own."""
    INTERRUPTED = 130
    """Ended by Ctrl-C (SIGINT)."""
    TERMINATED = 143
    """Ended by SIGTERM."""


class LanescopeError(Exception):
    """Base of everything that lanescope raises on purpose.

    Attributes
    ----------
    exit_code
        What the command line ends with.
    """

    exit_code: int = ExitCode.INPUT


class InputError(LanescopeError):
    """An argument, a file or a folder that the user gave cannot be used."""


class MissingPartError(InputError):
    """The machine does not have a part that the request needs, such as a GPU."""

    exit_code = ExitCode.NOT_AS_EXPECTED


class NotMeasuredError(LanescopeError):
    """A path cannot be measured now; the other paths are not concerned.

    Attributes
    ----------
    reason
        One sentence: what stands in the way.
    remedy
        One sentence: what the user can do, or None when there is nothing.
    """

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason if remedy is None else f"{reason} {remedy}")
        self.reason = reason
        self.remedy = remedy


class BusyError(NotMeasuredError):
    """A path is not measured because other processes use it now."""


class NotApplicableError(NotMeasuredError):
    """There is no such number: nothing is wrong, and no other time will bring it."""


def expected(error: BaseException) -> LanescopeError | None:
    """Return an error as one that lanescope raises on purpose; None where it is a fault of its own.

    A lack of memory is none, wherever it comes up: also where a library cannot be loaded for it.
    """
    if isinstance(error, LanescopeError):
        return error
    lacks = isinstance(error, MemoryError)
    if isinstance(error, OSError):
        lacks = error.errno == errno.ENOMEM
    elif isinstance(error, ImportError):
        lacks = any(words in str(error) for words in _NO_ROOM_FOR_LIBRARY)
    if not lacks:
        return None
    what = f" ({' '.join(str(error).split())[:200]})" if str(error) else ""
    return LanescopeError(
        f"there is not enough memory{what}; see what 'ulimit -v' or the job or container allow"
    )


class _Names:
    def __getattr__(self, name: str) -> str:
        return option_of(name) if _on_command_line else name


#: Each attribute is the argument of that name, as whoever gives it writes it.
argument = _Names()


def option_of(name: str) -> str:
    """Return the option that stands for an argument on the command line."""
    return _OPTIONS.get(name, f"--{name.replace('_', '-')}")


def command(words: str, *values: str) -> str:
    """Return a command in quotation marks, or the call of Python that does the same.

    Parameters
    ----------
    words
        Of the command behind ``lanescope``: those of `CALLS`, or what Python has no call for.
    values
        What stands in the places of a pair of braces.
    """
    if _on_command_line or words not in CALLS:
        return f"'lanescope {words.format(*values)}'"
    return f"lanescope.{CALLS[words].format(*values)}"


@contextmanager
def naming_options() -> Iterator[None]:
    """Name arguments by their options: a command line is carried out meanwhile."""
    global _on_command_line
    before, _on_command_line = _on_command_line, True
    try:
        yield
    finally:
        _on_command_line = before
