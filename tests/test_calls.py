"""What calls take: the rules of `lanescope.calls`, and that they hold for everything public."""

import collections.abc
import dataclasses
import enum
import importlib
import math
import pickle
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

import lanescope
from lanescope import InputError, Memory
from lanescope.calls import CallError, checked, is_checked, kinds_of
from lanescope.kinds import StrPath
from lanescope.machine import machine_named, save_machine
from lanescope.store.store import read_run
from lanescope.studies.nvbandwidth_cases import CaseOptions
from lanescope.studies.taruc import SizeParameters
from lanescope.units.sizes import Bytes, Size

ROOT = Path(__file__).parent.parent
#: What a class makes by itself; programs only look at it.
MADE_BY_OURSELVES = {
    "Deadline",
    "LinkParameters",
    "TaskGraph",
    "SharedLinks",
    "Parcel",
    "OceanGrid",
}


class Reads(Protocol):
    name: str

    def read(self) -> str: ...


@checked
def everything(
    flag: bool = True,
    count: int = 0,
    share: float = 0.0,
    words: str = "",
    path: StrPath = "x",
    size: Size = 1,
    memory: Memory = Memory.PINNED,
    several: Sequence[int] = (),
    one_or_more: int | Sequence[int] | None = None,
    pair: tuple[int, str] = (0, ""),
    back: Callable[[int, int], None] | None = None,
    reads: Reads | None = None,
    plan: lanescope.Plan | None = None,
    values: Any = None,
) -> dict[str, Any]:
    return locals()


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("flag", np.bool_(False), False),
        ("count", np.int64(3), 3),
        ("count", 2.0, 2),
        ("count", np.float32(2), 2),
        ("count", np.array(5), 5),
        ("share", 1, 1.0),
        ("share", np.float32(0.5), 0.5),
        ("path", Path("a/b"), Path("a/b")),
        ("path", "a/b", Path("a/b")),
        ("size", "64MiB", 64 << 20),
        ("size", 1e9, 10**9),
        ("memory", "pageable", Memory.PAGEABLE),
        ("several", 3, (3,)),
        ("several", [np.int8(1), 2.0], (1, 2)),
        ("several", np.arange(3), (0, 1, 2)),
        ("several", range(2), (0, 1)),
        ("one_or_more", 0, 0),
        ("one_or_more", [0, 1], (0, 1)),
        ("pair", [1, "x"], (1, "x")),
        ("values", np.zeros, np.zeros),
    ],
)
def test_what_is_right_comes_in_one_form(name, given, taken):
    found = everything(**{name: given})[name]
    assert found == taken
    assert type(found) is type(taken)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("flag", 1, "cannot be 1; give True or False"),
        ("count", True, "cannot be True; give a whole number, 0 or more"),
        ("count", -1, "cannot be -1; give a whole number"),
        ("count", 1.5, "cannot be 1.5; give"),
        ("count", 2**70, "give a whole number"),
        pytest.param("count", 10**5000, "a number of thousands of digits", id="digits"),
        ("count", "1", "cannot be '1'; give"),
        ("count", np.timedelta64(1, "s"), "of type timedelta64"),
        ("share", float("nan"), "cannot be nan; give a number, 0 or more"),
        ("share", float("inf"), "cannot be inf"),
        ("words", b"x", "cannot be b'x'; give text"),
        ("path", "", "cannot be ''; give a path"),
        ("path", "a\0b", r"path: 'a\\x00b' has a control character; rename it, or give a path"),
        ("path", Path("a\nb"), "has a control character; rename it, or give a path"),
        ("path", "x" * 300, "has a name of more than 255 bytes; give a path"),
        ("size", "64 apples", "'64 apples' is not a size"),
        ("size", 1 << 60, "such as 64 << 20 or '64MiB'"),
        ("memory", "pined", "cannot be 'pined'; give pageable, pinned"),
        ("several", [0, "x"], r"several\[1\] cannot be 'x'; give a list of whole numbers"),
        ("several", {1}, "cannot be of type set"),
        ("several", range(10**12), "cannot be of type range"),
        ("one_or_more", [-1], r"one_or_more\[0\] cannot be -1; .* or None"),
        ("pair", (1,), r"give \(a whole number, 0 or more, text\)"),
        ("back", lambda: None, "give a function that takes 2 values or None"),
        ("reads", 5, "an object with name, read or None"),
        ("plan", lanescope.Plan, "give a Plan or None"),
    ],
)
def test_what_is_wrong_is_one_sentence(name, given, words):
    with pytest.raises(CallError, match=words) as caught:
        everything(**{name: given})
    assert str(caught.value).startswith(f"everything: {name}")
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, TypeError)


def test_arguments_that_are_not_there():
    with pytest.raises(CallError, match=r"check: .* 'case'; it takes machine, cases, size_bytes"):
        lanescope.check(case="h2d/*")
    with pytest.raises(CallError, match="copy: missing a required argument: 'copies'"):
        lanescope.copy(machine="h200-x2")


@checked
def short(values: Any, count: int, share: float = 0.5, *, word: str = "", to: int | None = None):
    return values, count, share, word, to


def test_calls_like_those_before_are_looked_at_all_the_same():
    for _ in range(2):  # the second time each form of the call is known
        assert short("any", 1) == ("any", 1, 0.5, "", None)
        assert short(None, 2, 1.5, word="w", to=3) == (None, 2, 1.5, "w", 3)
        assert short(to=None, word="w", count=2, values=7) == (7, 2, 0.5, "w", None)
        made = short(7, np.int64(2), np.float32(1.5), word="w", to=np.int32(3))
        assert made == (7, 2, 1.5, "w", 3)
        assert [type(one) for one in made[1:]] == [int, float, str, int]
        for wrong in ((7, -1), (7, True), (7, 1, math.nan), (7, 1, -0.5), (7, "1"), (7,)):
            with pytest.raises(CallError):
                short(*wrong)
        for wrong in ({"word": 1}, {"to": -1}, {"to": True}, {"word": "w", "to": 1.5}, {"of": 1}):
            with pytest.raises(CallError):
                short(7, 1, **wrong)
        with pytest.raises(CallError, match="count"):
            short(7, 1, count=1)


def test_what_notebooks_give(tmp_path, monkeypatch):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))
    out = str(tmp_path / "x")
    run = lanescope.copy("h0 -> g0", "h200-x2", size_bytes="64MiB", out=out)
    assert lanescope.read_run(out) == run == read_run(Path(out))
    assert run.results[0].experiment.copies[0].bytes == 64 << 20
    assert len(lanescope.check("h200-x2", cases="h2d/*").results) == 2
    one = lanescope.sweep("h200-x2", sizes="1MiB", gpus=1, memories="pinned")
    assert {c.copy.path for r in one.results for c in r.copies} == {"h0 → g1", "g1 → h0"}
    file = tmp_path / "machine.toml"
    save_machine(machine_named("h200-x2"), str(file))
    run = lanescope.copy("h0 -> g0", file, out=tmp_path / "y")
    assert run.manifest.machine == lanescope.load_machine(str(file))
    with pytest.raises(InputError, match="no GPU is named"):
        lanescope.sweep("h200-x2", gpus=[])
    for arguments in ({"sizes": []}, {"memories": []}):
        with pytest.raises(InputError, match="a sweep without any"):
            lanescope.sweep("h200-x2", **arguments)
    with pytest.raises(InputError, match="does not fit twice"):
        lanescope.sweep("h200-x2", sizes=["1TiB"])
    with pytest.raises(InputError, match="does not fit twice"):
        lanescope.bench("h200-x2", options=CaseOptions(bytes="100TB"))
    with pytest.raises(InputError, match="no run 'nothing' here"):
        lanescope.read_run("nothing")


def test_machines_that_no_file_could_hold():
    plain = machine_named("h200-x2")
    gpu = dataclasses.replace(plain.gpus[0], node=7)
    for machine, words in (
        (dataclasses.replace(plain, gpus=(gpu, plain.gpus[1])), r"gpus\[0\], .* no node 7"),
        (dataclasses.replace(plain, gpus=(gpu, gpu)), "there are two parts 'g0'"),
        (dataclasses.replace(plain, nodes=()), "'nodes' is missing"),
    ):
        with pytest.raises(InputError, match=f"machine 'h200-x2': .*{words}|{words}"):
            lanescope.check(machine)
    with pytest.raises(InputError, match="there is no GPU 9 in machine 'h200-x2'; it has 0, 1"):
        plain.gpu(9)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target": 0}, "target cannot be 0"),
        ({"budget_seconds": 1e30}, "budget_seconds cannot be 1e[+]30; give an hour at most"),
        ({"samples": 10**20}, "samples cannot be"),
        ({"samples": 0}, "samples cannot be 0; give 1 to 1000000, or None"),
    ],
)
def test_plans_that_nobody_means(given, words):
    with pytest.raises(InputError, match=f"Plan: {words}"):
        lanescope.Plan(**given)


def test_fields_are_brought_into_one_form():
    place = lanescope.Place("h0", "pinned")
    assert place.memory is Memory.PINNED
    copy = lanescope.Copy(place, lanescope.Place("g0", "device"), "1MiB", "ce", cpus=[np.int64(3)])
    assert (copy.bytes, copy.engine, copy.cpus) == (1 << 20, lanescope.Engine.CE, (3,))
    assert hash(copy) == hash(dataclasses.replace(copy))
    assert lanescope.Experiment("x", "x", copy).copies == (copy,)
    assert SizeParameters(max_bytes="1.5GB").max_bytes == 1_500_000_000


def test_a_function_travels_to_other_processes():
    for name in lanescope.__all__:
        function = getattr(lanescope, name)
        if callable(function):
            assert pickle.loads(pickle.dumps(function)) is function
            assert function.__doc__


def documented() -> list[Any]:
    """What docs/ and README.md import, or name in full, of lanescope."""
    found = {}
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        named = re.findall(r"^from (lanescope[\w.]*) import (.+)$", text, re.MULTILINE)
        named += [(a, b) for a, b in re.findall(r"`(lanescope\.[\w.]+)\.(\w+)(?=[`(])", text)]
        for module, names in named:
            for name in names.split(", "):
                if hasattr(home := importlib.import_module(module), name):
                    found[module, name] = getattr(home, name)
    return [value for value in found.values() if callable(value)]


def classes_in(hint: Any) -> set[type]:
    """The classes of ours that a hint names."""
    if isinstance(hint, type) and hint.__module__.startswith("lanescope"):
        return {hint}
    return {one for inner in typing.get_args(hint) for one in classes_in(inner)}


def test_everything_public_is_checked():
    """Functions and classes that lanescope exports, docs/ mentions, or such calls take."""
    left = [*(getattr(lanescope, name) for name in lanescope.__all__), *documented()]
    seen: set[Any] = set()
    while left:
        target = left.pop()
        plain = isinstance(target, type) and (
            issubclass(target, enum.Enum | Exception) or getattr(target, "_is_protocol", False)
        )
        if not callable(target) or plain or target in seen:
            continue
        seen.add(target)
        if target.__name__ in MADE_BY_OURSELVES or target.__module__.endswith(".stream"):
            continue
        assert is_checked(target), f"{target} has no @checked"
        for kind in kinds_of(target if dataclasses.is_dataclass(target) else call_of(target)):
            assert kind
        hints = typing.get_type_hints(call_of(target), include_extras=True)
        hints.pop("return", None)
        left += [one for hint in hints.values() for one in classes_in(hint)]
    assert len(seen) > 40


def call_of(target: Any) -> Any:
    return target.__init__ if isinstance(target, type) else target


def test_hints_that_nobody_thought_of_are_not_in_use():
    """A parameter whose hint says nothing would take anything."""
    for name in lanescope.__all__:
        function = getattr(lanescope, name)
        if isinstance(function, collections.abc.Callable) and not isinstance(function, type):
            for argument, hint in typing.get_type_hints(function).items():
                said = argument == "return" or hint is Any or argument in kinds_of(function)
                assert said, f"{name}: {argument}"
                if argument in kinds_of(function):
                    assert kinds_of(function)[argument].words != "a value", f"{name}: {argument}"


def test_importing_takes_nothing_along():
    done = subprocess.run(
        [sys.executable, "-c", "import lanescope, sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not {"numpy", "lanescope.calls", "lanescope.api"} & set(done.stdout.split())


def test_a_size_of_a_field_is_what_mypy_sees():
    assert typing.get_args(Bytes)[0] is int
    assert typing.get_args(Size)[0] == int | str


def test_a_thread_finds_all_fields_while_another_looks_them_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclasses.dataclass(frozen=True)
    @checked
    class Pair:
        first: int
        second: int

    kinds = kinds_of(Pair)
    refused = []

    class Slow(dict[str, Any]):
        def items(self) -> Any:
            for number, item in enumerate(kinds.items()):
                if number == 1 and not refused:  # as a thread that comes now
                    refused.append("")
                    with pytest.raises(CallError):
                        Pair(1, "many")
                    refused.append("second")
                yield item

    monkeypatch.setattr("lanescope.calls.kinds_of", lambda cls: Slow(kinds))
    Pair(1, 2)
    assert refused == ["", "second"]
