"""Calls of Python functions that the docs show take the arguments shown.

But for CONTRIBUTING.md, whose study is made up: test_contributing.py runs that."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_pages import PAGES


def code_of(page: Path) -> Iterator[ast.AST]:
    """Yield the blocks of Python, and what else is a call of lanescope's in a line."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        yield ast.parse(block)
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for code in re.findall(r"`(lanescope\.[\w.]+\([^`]*\))`", outside):
        yield ast.parse(code)


def calls_of(page: Path) -> Iterator[ast.Call]:
    """Yield the calls of ``lanescope.NAME`` and of what is in its modules."""
    for code in code_of(page):
        for node in ast.walk(code):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("lanescope."):
                yield node


def named(path: str) -> Any:
    """Return what a dotted name stands for, or None where its module needs what is not here."""
    module, *names = path.split(".")
    found = importlib.import_module(module)
    for name in names:
        module = f"{module}.{name}"
        if not hasattr(found, name):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name is None or error.name.startswith("lanescope"):
                    raise
                return None
        found = getattr(found, name)
    return found


@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.name != "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_calls_have_arguments_that_are_taken(page: Path):
    for call in calls_of(page):
        if (function := named(ast.unparse(call.func))) is not None:
            by_name = {one.arg: one.value for one in call.keywords if one.arg is not None}
            try:
                inspect.signature(function).bind(*call.args, **by_name)
            except TypeError as error:
                pytest.fail(f"{ast.unparse(call)}: {error}")
