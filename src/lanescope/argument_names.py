"""How messages name an argument: as its option on a command line, by its name in Python.

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

from collections.abc import Iterator
from contextlib import contextmanager

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
