"""What ``help()`` shows of public functions: plain types, which are not all that is checked."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated

import pytest

import lanescope
from lanescope.kinds import ArgumentKind, StrPath, plain_hint
from lanescope.studies import ANALYSES, STUDIES
from lanescope.units.sizes import Bytes, Size
from lanescope.units.words import Seconds

FUNCTIONS = [one for one in {**STUDIES, **ANALYSES} if one in lanescope.__all__]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_are_of_plain_types(name):
    text = str(inspect.signature(getattr(lanescope, name)))
    for inside in ("Annotated", "Kind(", "Option(", "<function", " at 0x", "Optional", "Union"):
        assert inside not in text


def test_sizes_and_times_are_shown_as_what_is_taken():
    parameters = inspect.signature(lanescope.predict).parameters
    assert parameters["h2d_bytes"].annotation == int | str
    assert parameters["kernel_seconds"].annotation == float | str | None
    assert parameters["streams"].default == "1..256"
    assert inspect.signature(lanescope.check).parameters["size_bytes"].default == 512 << 20


def test_calls_are_checked_by_more_than_is_shown():
    with pytest.raises(lanescope.InputError, match="size_bytes cannot be 0"):
        lanescope.check(machine="h200-x2", size_bytes=0)


def test_plain_hints():
    kind = ArgumentKind("a thing", lambda value: value)
    assert plain_hint(Annotated[int, kind]) is int
    assert plain_hint(Sequence[StrPath | None]) == Sequence[plain_hint(StrPath) | None]
    assert plain_hint(tuple[Bytes, Seconds]) == tuple[int | str, float | str]
    assert plain_hint(tuple[Size, ...]) == tuple[int | str, ...]
    assert plain_hint(Callable[[Size], None]) == Callable[[int | str], None]
