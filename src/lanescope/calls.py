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

import dataclasses
import functools
import inspect
import reprlib
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from lanescope.errors import InputError
from lanescope.kinds import ArgumentKind, Unfit, kind_of

T = TypeVar("T")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
#: Of an argument: its place in a call, the type whose values need no longer look, and what tells
#: of others whether they do, where that is quick.
_Look = tuple[int, type | None, Callable[[Any], Any] | None]
#: Of calls of a function, by how many arguments in order and which names: programs have few.
_MOST_FORMS = 64


class CallError(InputError, TypeError):
    """A call has arguments that it does not take."""


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


def checked_constructor(cls: type[T]) -> type[T]:
    """Let a dataclass say by a `CallError` which arguments are missing, unknown or too many."""
    made = cls.__init__
    signature = inspect.signature(made)

    @functools.wraps(made)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            made(self, *args, **kwargs)
        except TypeError as error:
            if not isinstance(error, InputError):
                _refuse(cls.__name__, signature, (self, *args), kwargs)
            raise

    setattr(cls, "__init__", __init__)  # noqa: B010
    return cls


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
    known = frozenset(signature.parameters)
    forms: dict[tuple[Any, ...], list[_Look]] = {}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        form = (len(args), *kwargs)
        looks = forms.get(form)
        values = (*args, *kwargs.values()) if kwargs else args
        if looks is not None and _are_exact(values, looks):  # most calls
            return function(*args, **kwargs)
        given = dict(zip(in_order, args, strict=False)) | kwargs
        once = len(given) == len(args) + len(kwargs)
        if not once or not needed <= given.keys() <= known:
            _refuse(name, signature, args, kwargs)
        kinds = kinds_of(function)
        if looks is None and len(forms) < _MOST_FORMS:
            forms[form] = [
                (place, kinds[one].exact, kinds[one].take if kinds[one].is_light else None)
                for place, one in enumerate(given)
                if one in kinds
            ]
        for argument, value in given.items():
            kind = kinds.get(argument)
            if kind is not None and type(value) is not kind.exact:
                given[argument] = _taken(kind, value, name, argument)
        return function(**given)

    call.__lanescope_checked__ = True  # type: ignore[attr-defined]
    return call


def _are_exact(values: tuple[Any, ...], looks: list[_Look]) -> bool:
    """Return whether values are for sure in the one form already, without a longer look."""
    try:
        for place, exact, take in looks:
            value = values[place]
            if type(value) is not exact and (take is None or take(value) is not value):
                return False
    except Exception:  # which the longer look says
        return False
    return True


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

    fields: list[tuple[str, ArgumentKind, Callable[[Any], Any], Any, Any]] = []

    def __post_init__(self: Any) -> None:  # noqa: N807
        if not fields:  # its hints may name classes that come after it
            fields[:] = [  # all at once: other threads come here, too
                (field, kind, kind.take, kind.exact, defaults.get(field, _taken))
                for field, kind in kinds_of(cls).items()
            ]
        for field, kind, take, exact, default in fields:
            given = getattr(self, field)
            if type(given) is exact or given is default:
                continue  # most fields of most values
            try:
                value = take(given)
            except Exception:
                value = _taken(kind, given, cls.__name__, field)  # which says what is wrong
            if value is not given:
                object.__setattr__(self, field, value)  # also of a frozen one
        if after is not None:
            after(self)

    __post_init__.__lanescope_checked__ = True  # type: ignore[attr-defined]
    return __post_init__


def _taken(kind: ArgumentKind, value: Any, call: str, argument: str) -> Any:
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
def kinds_of(target: Any) -> dict[str, ArgumentKind]:
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
