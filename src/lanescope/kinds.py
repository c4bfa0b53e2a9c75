"""What a type hint takes from Python programs, and the one form that it is brought into.

The rules stand at the top of `lanescope.calls`.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import math
import numbers
import operator
import os
import types
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from lanescope.errors import InputError

_SEVERAL = (tuple, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)
#: More items are a mistake, and take long before anything else says so.
_MOST_ITEMS = 1_000_000
#: The core counts in 64 bits.
_LARGEST = 2**63 - 1
#: Bytes, of a file in any file system that matters.
LONGEST_NAME = 255
#: Characters of a wrong path that a sentence repeats.
_MOST_QUOTED = 60


class Unfit(Exception):  # noqa: N818  (never leaves this module's callers)
    """A value does not fit; `args` are where inside the argument, and the value."""


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentKind:
    """What an argument takes.

    Attributes
    ----------
    words
        For errors, such as ``a whole number``.
    take
        Returns the value in the one form that functions work on; raises `Unfit`, or an
        `InputError` that says more.
    several
        The words where a list of such values is taken.
    exact
        A type whose values are taken as they are.
    is_light
        Whether `take` takes no longer than a look at the type, and may be called twice.
    hint
        The types that are taken, where the annotated one is what they become.
    """

    words: str
    take: Callable[[Any], Any]
    several: str = ""
    exact: type | None = None
    is_light: bool = False
    hint: Any = None


def plain_hint(hint: Any) -> Any:
    """Return a type hint without what `Annotated` adds, for signatures that people read."""
    if isinstance(hint, list):  # the parameters of a callable
        return [plain_hint(one) for one in hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        named = (one.hint for one in arguments[1:] if isinstance(one, ArgumentKind))
        return next(named, None) or plain_hint(arguments[0])
    if not arguments or origin is typing.Literal:
        return hint
    plain = [plain_hint(one) for one in arguments]
    if origin in (types.UnionType, typing.Union):
        return functools.reduce(operator.or_, plain)
    return origin[plain[0] if len(plain) == 1 else tuple(plain)]


@functools.cache
def kind_of(hint: Any) -> ArgumentKind:
    """Return what a type hint takes."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        named = [one for one in arguments[1:] if isinstance(one, ArgumentKind)]
        kind = named[0] if named else kind_of(arguments[0])
        options = (getattr(one, "value", None) for one in arguments[1:])
        bounded = next((one for one in options if getattr(one, "wanted", "")), None)
        return kind if bounded is None else _within(kind, bounded)
    if origin in (types.UnionType, typing.Union):
        return _any_of([kind_of(one) for one in arguments])
    if origin in _SEVERAL:
        fixed = origin is tuple and Ellipsis not in arguments
        return _each([kind_of(a) for a in arguments]) if fixed else _several(kind_of(arguments[0]))
    if origin is collections.abc.Callable:
        return _callable(arguments)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    plain = origin or hint
    if not isinstance(plain, type):
        return ArgumentKind("a value", lambda value: value)
    if issubclass(plain, Enum):
        return _member(plain)
    if getattr(plain, "_is_protocol", False):
        return _like(plain)
    words = f"{'an' if plain.__name__[0] in 'AEIOU' else 'a'} {plain.__name__}"
    return ArgumentKind(
        words, lambda value: _fit(value, isinstance(value, plain)), plain.__name__, plain
    )


def _within(kind: ArgumentKind, bounds: Any) -> ArgumentKind:
    """Return a kind of numbers that have the bounds of the option of the command line."""

    def take(value: Any) -> Any:
        taken = kind.take(value)
        is_number = isinstance(taken, int | float) and not isinstance(taken, bool)
        return _fit(taken, not is_number or bounds.fits(taken))

    return dataclasses.replace(kind, words=bounds.wanted, take=take, exact=None)


def _fit(value: Any, fits: bool) -> Any:
    if not fits:
        raise Unfit
    return value


def _plain(value: Any) -> Any:
    """Return a scalar of NumPy as Python's."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    _fit(value, kind in ("", "b", "i", "u", "f"))
    return value.item() if kind and value.ndim == 0 else value


def _int(value: Any) -> int:
    if type(value) is int and 0 <= value <= _LARGEST:
        return value
    value = _plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        number = operator.index(_fit(value, not isinstance(value, bool)))
    except TypeError:
        raise Unfit from None
    _fit(value, 0 <= number <= _LARGEST)
    return number


def _float(value: Any) -> float:
    if type(value) is float and 0 <= value < math.inf:
        return value
    value = _plain(value)
    try:
        number = float(_fit(value, isinstance(value, numbers.Real) and not isinstance(value, bool)))
    except OverflowError:
        raise Unfit from None
    _fit(value, 0 <= number < math.inf)
    return number


def path_of(value: Any) -> Path:
    """Return a path of text, or of what stands for a path.

    Raises
    ------
    InputError
        If no lanescope takes such a name.
    """
    text = os.fspath(_fit(value, isinstance(value, str | os.PathLike)))
    path = Path(_fit(text, isinstance(text, str) and text != ""))
    short = repr(text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}...")
    if min(text) < " ":
        raise InputError(f"{short} has a control character; rename it, or give a path without")
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
        raise InputError(
            f"{short} has a name of more than {LONGEST_NAME} bytes; give a path of shorter ones"
        )
    return path


def word_of(value: Any) -> str:
    """Return a word of a program's command line, of text or of what stands for a path."""
    text = os.fspath(_fit(value, isinstance(value, str | os.PathLike)))
    _fit(text, isinstance(text, str) and "\0" not in text)
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise Unfit from None
    return str(text)


_SIMPLE = {
    type(None): ArgumentKind("None", lambda value: _fit(value, value is None), is_light=True),
    bool: ArgumentKind(
        "True or False",
        lambda value: _fit(_plain(value), isinstance(_plain(value), bool)),
        "",
        bool,
    ),
    int: ArgumentKind("a whole number, 0 or more", _int, "whole numbers", is_light=True),
    float: ArgumentKind("a number, 0 or more", _float, "numbers", is_light=True),
    str: ArgumentKind("text", lambda value: _fit(value, isinstance(value, str)), "texts", str),
    Path: ArgumentKind("a path", path_of, "paths"),
}
#: A word of a program's command line.
Word = Annotated[
    str | os.PathLike[str], ArgumentKind("text without NUL, or a path", word_of, "words")
]
#: A file or a folder.
StrPath = Annotated[str | os.PathLike[str], ArgumentKind("a path", path_of, "paths")]


def _any_of(kinds: list[ArgumentKind]) -> ArgumentKind:
    takes_none = _SIMPLE[type(None)] in kinds

    def take(value: Any) -> Any:
        if value is None and takes_none:
            return None
        unfit = Unfit()
        for kind in kinds:
            try:
                return kind.take(value)
            except Unfit as error:
                unfit = error if error.args else unfit
        raise unfit

    *words, last = dict.fromkeys(kind.words for kind in kinds)
    is_light = all(kind.is_light or kind.exact is not None for kind in kinds)
    return ArgumentKind(f"{', '.join(words)} or {last}" if words else last, take, is_light=is_light)


def _several(kind: ArgumentKind) -> ArgumentKind:
    def take(value: Any) -> tuple[Any, ...]:
        if not _is_list(value):
            return (kind.take(value),)
        if len(value) > _MOST_ITEMS:
            raise Unfit
        return _items(value, [kind] * len(value))

    return ArgumentKind(f"a list of {kind.several or kind.words}", take)


def _each(kinds: list[ArgumentKind]) -> ArgumentKind:
    def take(value: Any) -> tuple[Any, ...]:
        return _items(_fit(value, _is_list(value) and len(value) == len(kinds)), kinds)

    return ArgumentKind(f"({', '.join(kind.words for kind in kinds)})", take)


def _is_list(value: Any) -> bool:
    if isinstance(value, str | bytes | bytearray | memoryview):
        return False
    return isinstance(value, collections.abc.Sequence) or getattr(value, "ndim", 0) == 1


def _items(values: Any, kinds: list[ArgumentKind]) -> tuple[Any, ...]:
    taken = []
    for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        try:
            taken.append(kind.take(value))
        except Unfit as error:
            inside, given = error.args if error.args else ("", value)
            raise Unfit(f"[{number}]{inside}", given) from None
    return tuple(taken)


def _member(enum: type[Enum]) -> ArgumentKind:
    def take(value: Any) -> Enum:
        try:
            return enum(_fit(value, isinstance(value, str | enum)))
        except ValueError:
            raise Unfit from None

    *first, last = [str(member.value) for member in enum]
    return ArgumentKind(
        f"{', '.join(first)} or {last}", take, f"{', '.join(first)} and {last}", enum
    )


def _like(protocol: type[Any]) -> ArgumentKind:
    names = [name for name in typing.get_type_hints(protocol) | vars(protocol) if name[0] != "_"]
    words = f"an object with {', '.join(names)}"
    return ArgumentKind(words, lambda value: _fit(value, all(hasattr(value, n) for n in names)))


def _callable(arguments: tuple[Any, ...]) -> ArgumentKind:
    places = arguments[0] if isinstance(arguments[0], list) else None

    def take(value: Any) -> Any:
        _fit(value, callable(value) and not isinstance(value, type))
        try:
            signature = inspect.signature(value)
        except (TypeError, ValueError):  # of something built in
            return value
        try:
            signature.bind(*(places or ()))
        except TypeError:
            return _fit(value, places is None)
        return value

    many = "" if places is None else f" that takes {len(places)} values"
    return ArgumentKind(f"a function{many}", take)
