"""The verbs with their options, as their functions declare them, and command lines in-process."""

from __future__ import annotations

import contextlib
import functools
import io
import signal
import sys
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer

from lanescope.cli import app as command_line
from lanescope.cli.app import VERBS, app, main
from lanescope.cli.bench import bench
from lanescope.units.values import Value


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or argument where `names` is empty, of a verb.

    Attributes
    ----------
    value
        What it takes; None for a flag, and for what takes any word.
    """

    names: tuple[str, ...]
    value: Value | None
    is_flag: bool
    is_many: bool

    @property
    def name(self) -> str:
        """The longest name in small letters, as messages have it."""
        long = [name for name in self.names if name.startswith("--")]
        return max(long, key=lambda name: (name == name.lower(), len(name)))


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: the words that name it, its options, and the rules between them."""

    words: tuple[str, ...]
    options: tuple[Option, ...]
    rules: tuple[Any, ...]

    def option(self, name: str) -> Option | None:
        """Return an option by one of its names."""
        return next((one for one in self.options if name in one.names), None)


def verbs() -> tuple[Verb, ...]:
    """Return every verb of the command line."""
    found = [(tuple(one.words.split()), one.load()) for one in VERBS]
    return tuple(
        Verb(words, tuple(_options(verb)), getattr(verb, "rules", ()))
        for words, verb in [*found, (("bench",), bench)]
    )


def _options(verb: Any) -> Iterator[Option]:
    for name, hint in typing.get_type_hints(verb, include_extras=True).items():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, typer.models.OptionInfo):
                # within Annotated, Typer has the first name where else a default stands
                first = (info.default,) if isinstance(info.default, str) else ()
                names = (*first, *(info.param_decls or ())) or (f"--{name.replace('_', '-')}",)
                kind = typing.get_args(hint)[0]
                value = info.parser if isinstance(info.parser, Value) else None
                yield Option(names, value, kind is bool, "list" in str(kind))


@dataclass(frozen=True, slots=True)
class Done:
    """How a command line ended."""

    arguments: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    @property
    def returncode(self) -> int:
        """As `subprocess` calls it."""
        return self.code


@functools.cache
def _commands() -> Any:
    """All commands, made once: that takes longer than most command lines."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> Done:
    """Run a command line in this process, as its entry point does."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        for _ in range(2)
    )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before, sys.argv = sys.argv, ["lanescope", *arguments]
    made = patch.object(command_line, "app", _commands())
    try:
        with made, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
    finally:
        sys.argv = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Done(tuple(arguments), code, *texts)


def listing(folder: Path) -> set[str]:
    """Return what is in a folder, with all that is below it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
