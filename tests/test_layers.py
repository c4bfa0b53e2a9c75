"""Packages import what stands before them in `ORDER`, and nothing behind it, lazily neither."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

#: All that is in the package, from the ground up; `__init__` is `import lanescope`.
ORDER = (
    *("presenting", "errors", "_native", "_core", "_version", "interruption", "kinds", "calls"),
    *("codec", "units", "document", "machine", "copies", "results", "engine", "store", "trace"),
    *("prediction", "findings", "compression", "torch", "watching", "boosting", "report"),
    *("studies", "history", "fleet", "api", "__init__", "operators", "cli", "__main__"),
    "examples",
)


def modules(source: str) -> Iterator[str]:
    """Yield the modules that a file imports, but for type checkers alone, or names in a string.

    A module that Python runs by ``-m`` is none of them.
    """
    nodes = list(ast.walk(ast.parse(source)))
    left_out = {id(inner) for node in nodes for out in _left_out(node) for inner in ast.walk(out)}
    for node in nodes:
        if id(node) in left_out:
            continue
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^lanescope\.\w[\w.]*$", node.value)


def _left_out(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return [*node.body]
    if isinstance(node, ast.Tuple | ast.List):
        pairs = zip(node.elts, node.elts[1:], strict=False)
        return [ran for flag, ran in pairs if getattr(flag, "value", "") == "-m"]
    return []


def home(module: str) -> str | None:
    """Return the place in `ORDER` of a module; None of one that is not lanescope's."""
    first, *rest = module.split(".")
    if first != "lanescope":
        return None if first else module  # relative
    return rest[0] if rest and rest[0] in ORDER else "__init__"


def later_imports(package: str, source: str) -> set[str]:
    """Return what a file of a package imports although it stands behind the package."""
    return set(map(home, modules(source))) - {None, *ORDER[: ORDER.index(package) + 1]}


def test_packages_import_what_stands_before_them(source_folder: Path):
    files = {path.relative_to(source_folder): path for path in source_folder.rglob("*.py")}
    wrong = {
        (name.as_posix(), one)
        for name, path in files.items()
        for one in later_imports(name.parts[0].removesuffix(".py"), path.read_text())
    }
    assert files
    assert wrong == set()


def test_everything_has_its_place(source_folder: Path):
    there = [path for path in source_folder.iterdir() if path.is_dir() or path.suffix == ".py"]
    assert {path.stem for path in there} - {"__pycache__"} == set(ORDER)


@pytest.mark.parametrize(
    "source",
    [
        "from lanescope.cli import app",
        "from lanescope import cli",
        "import lanescope.cli.app",
        "import lanescope",
        "from lanescope import check",
        "from ..cli import app",
        "import_module('lanescope.cli.app')",
        "import_module(f'lanescope.cli.{name}')",
    ],
)
def test_no_form_of_import_gets_by(source: str):
    assert later_imports("store", f"def later():\n    {source}")
    assert not later_imports("store", f"if TYPE_CHECKING:\n    {source}")
