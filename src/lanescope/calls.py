"""Checks the arguments of public calls against their type hints, and brings them into one form.

What `lanescope` exports is checked by that (`lanescope.__getattr__`); values that programs make,
and what docs/ mentions beside, are decorated with `checked`. The same holds everywhere:

- A whole number is an int, one of NumPy, or a float without a fraction; never a bool.
  It fits into 64 bits.
- A number is finite and not negative. A size is a number of bytes or text such as ``"64MiB"``.
- A path is text or ``os.PathLike``. A member of an enumeration can be given by its value.
- Where several values are taken, one alone counts as a list of one.

Whatever else is given is a `CallError`, which says where, and what is taken there.
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
import reprlib
import types
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from lanescope.errors import InputError

T = TypeVar("T")
#: More items are a mistake, and take long before anything else says so.
_MOST_ITEMS = 1_000_000
#: The core counts in 64 bits.
_LARGEST = 2**63 - 1
#: Bytes, of a file in any file system that matters.
_LONGEST_NAME = 255
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SEVERAL = (tuple, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)


class CallError(InputError, TypeError):
    """A call has arguments that it does not take."""


class Unfit(Exception):  # noqa: N818  (never leaves this module's callers)
    """A value does not fit; `args` are where inside the argument, and the value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
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
    """

    words: str
    take: Callable[[Any], Any]
    several: str = ""
    exact: type | None = None


def checked(target: T) -> T:
    """Return a function, or a class with its constructor and public methods, with checked calls.

    Of a dataclass, put it below ``@dataclass``, so that the fields are checked before
    ``__post_init__`` looks at them.
    """
    if isinstance(target, types.FunctionType):
        return typing.cast(T, target if is_checked(target) else _checked(target))
    if isinstance(target, type):
        for name, member in list(vars(target).items()):
            if isinstance(member, types.FunctionType) and (name == "__init__" or name[0] != "_"):
                setattr(target, name, checked(member))
        if "__init__" not in vars(target):
            setattr(target, "__post_init__", _checked_fields(target))  # noqa: B010
    return target


def is_checked(target: Any) -> bool:
    """Whether calls of a function, or of a class, are checked."""
    names = ("__post_init__", "__init__") if isinstance(target, type) else ()
    made = next((vars(target)[name] for name in names if name in vars(target)), target)
    return hasattr(made, "__lanescope_checked__")


def _checked(function: types.FunctionType) -> Callable[..., Any]:
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")
    places = signature.parameters.values()
    in_order = [place.name for place in places if place.kind is place.POSITIONAL_OR_KEYWORD]
    needed = {place.name for place in places if place.default is place.empty}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(in_order, args, strict=False)) | kwargs
        once = len(given) == len(args) + len(kwargs)
        if not once or not needed <= given.keys() <= signature.parameters.keys():
            _refuse(name, signature, args, kwargs)
        kinds = kinds_of(function)
        for argument, value in given.items():
            kind = kinds.get(argument)
            if kind is not None and type(value) is not kind.exact:
                given[argument] = _taken(kind, value, name, argument)
        return function(**given)

    call.__lanescope_checked__ = True  # type: ignore[attr-defined]
    return call


def _refuse(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
    """Say which arguments are missing, unknown or too many."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join(place for place in signature.parameters if place != "self")
        raise CallError(f"{name}: {error}; it takes {names or 'nothing'}") from None


def _checked_fields(cls: Any) -> Callable[[Any], None]:
    after = vars(cls).get("__post_init__")
    defaults = {n: vars(cls)[n] for n in vars(cls).get("__annotations__", ()) if n in vars(cls)}

    def __post_init__(self: Any) -> None:  # noqa: N807
        for field, kind in kinds_of(cls).items():
            given = getattr(self, field)
            if type(given) is kind.exact or given is defaults.get(field, _taken):
                continue  # most fields of most values
            value = _taken(kind, given, cls.__name__, field)
            if value is not given:
                object.__setattr__(self, field, value)  # also of a frozen one
        if after is not None:
            after(self)

    __post_init__.__lanescope_checked__ = True  # type: ignore[attr-defined]
    return __post_init__


def _taken(kind: Kind, value: Any, call: str, argument: str) -> Any:
    try:
        return kind.take(value)
    except Unfit as error:
        where, given = error.args if error.args else ("", value)
        raise CallError(
            f"{call}: {argument}{where} cannot be {shown(given)}; give {kind.words}"
        ) from None
    except InputError as error:
        raise CallError(f"{call}: {argument}: {error}") from None
    except Exception:  # of the value's own methods
        raise CallError(f"{call}: {argument} cannot be {shown(value)}; give {kind.words}") from None


def shown(value: Any) -> str:
    """Return a value in few words, for errors."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        try:
            return _SHORT.repr(value)
        except ValueError:  # a number with more digits than Python writes
            return "a number of thousands of digits"
    return f"of type {type(value).__qualname__}"


@functools.cache
def kinds_of(target: Any) -> dict[str, Kind]:
    """Return what the parameters of a function, or the fields of a dataclass, take."""
    hints = typing.get_type_hints(target, include_extras=True)
    if isinstance(target, type):
        names = [field.name for field in dataclasses.fields(target)]
    else:
        names = list(inspect.signature(target).parameters)
    return {name: kind_of(hints[name]) for name in names if _says_something(hints.get(name))}


def _says_something(hint: Any) -> bool:
    plain = hint in (None, Any, object) or isinstance(hint, TypeVar)
    return not plain and typing.get_origin(hint) is not typing.ClassVar


@functools.cache
def kind_of(hint: Any) -> Kind:
    """Return what a type hint takes."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        told = [one for one in arguments[1:] if isinstance(one, Kind)]
        return told[0] if told else kind_of(arguments[0])
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
        return Kind("a value", lambda value: value)
    if issubclass(plain, Enum):
        return _member(plain)
    if getattr(plain, "_is_protocol", False):
        return _like(plain)
    words = f"{'an' if plain.__name__[0] in 'AEIOU' else 'a'} {plain.__name__}"
    return Kind(words, lambda value: _fit(value, isinstance(value, plain)), plain.__name__, plain)


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
    """Return a path of text, or of what stands for a path."""
    text = os.fspath(_fit(value, isinstance(value, str | os.PathLike)))
    path = Path(_fit(text, isinstance(text, str) and text != "" and min(text) >= " "))
    _fit(value, all(len(os.fsencode(part)) <= _LONGEST_NAME for part in path.parts))
    return path


_SIMPLE = {
    type(None): Kind("None", lambda value: _fit(value, value is None)),
    bool: Kind(
        "True or False",
        lambda value: _fit(_plain(value), isinstance(_plain(value), bool)),
        "",
        bool,
    ),
    int: Kind("a whole number, 0 or more", _int, "whole numbers"),
    float: Kind("a number, 0 or more", _float, "numbers"),
    str: Kind("text", lambda value: _fit(value, isinstance(value, str)), "texts", str),
    Path: Kind("a path", path_of, "paths"),
}
#: A file or a folder.
StrPath = Annotated[str | os.PathLike[str], Kind("a path", path_of, "paths")]


def _any_of(kinds: list[Kind]) -> Kind:
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
    return Kind(f"{', '.join(words)} or {last}" if words else last, take)


def _several(kind: Kind) -> Kind:
    def take(value: Any) -> tuple[Any, ...]:
        if not _is_list(value):
            return (kind.take(value),)
        if len(value) > _MOST_ITEMS:
            raise Unfit
        return _items(value, [kind] * len(value))

    return Kind(f"a list of {kind.several or kind.words}", take)


def _each(kinds: list[Kind]) -> Kind:
    def take(value: Any) -> tuple[Any, ...]:
        return _items(_fit(value, _is_list(value) and len(value) == len(kinds)), kinds)

    return Kind(f"({', '.join(kind.words for kind in kinds)})", take)


def _is_list(value: Any) -> bool:
    if isinstance(value, str | bytes | bytearray | memoryview):
        return False
    return isinstance(value, collections.abc.Sequence) or getattr(value, "ndim", 0) == 1


def _items(values: Any, kinds: list[Kind]) -> tuple[Any, ...]:
    taken = []
    for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        try:
            taken.append(kind.take(value))
        except Unfit as error:
            inside, given = error.args if error.args else ("", value)
            raise Unfit(f"[{number}]{inside}", given) from None
    return tuple(taken)


def _member(enum: type[Enum]) -> Kind:
    def take(value: Any) -> Enum:
        try:
            return enum(_fit(value, isinstance(value, str | enum)))
        except ValueError:
            raise Unfit from None

    *first, last = [str(member.value) for member in enum]
    return Kind(f"{', '.join(first)} or {last}", take, f"{', '.join(first)} and {last}", enum)


def _like(protocol: type[Any]) -> Kind:
    names = [name for name in typing.get_type_hints(protocol) | vars(protocol) if name[0] != "_"]
    words = f"an object with {', '.join(names)}"
    return Kind(words, lambda value: _fit(value, all(hasattr(value, n) for n in names)))


def _callable(arguments: tuple[Any, ...]) -> Kind:
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
    return Kind(f"a function{many}", take)
