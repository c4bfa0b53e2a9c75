"""Packages import what stands before them in `ORDER`, and nothing behind it, lazily neither."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

#: From the ground up.
ORDER = (
    *("errors", "interruption", "kinds", "calls", "codec", "units", "document"),
    *("machine", "copies", "results", "engine", "store", "trace", "prediction", "findings"),
    *(
        "compression",
        "torch",
        "watching",
        "boosting",
        "report",
        "studies",
        "history",
        "fleet",
        "api",
        "operators",
        "cli",
        "examples",
    ),
)
#: What still points the wrong way: a file, and the package that it should not know.
EXCEPTIONS = {
    ("results/__init__.py", "studies"),  # how a notebook shows a result
    ("store/run.py", "studies"),  # and a run
}


def imports(path: Path) -> Iterator[str]:
    """Yield the packages of lanescope that a file imports, but for type checkers alone."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in for_types:
            first, *rest = (node.module or "").split(".")
            if first == "lanescope":
                yield from rest[:1] or (alias.name for alias in node.names)


def test_arrows_go_one_direction(source_folder: Path):
    backwards = set()
    for path in source_folder.rglob("*.py"):
        file = path.relative_to(source_folder)
        package = file.parts[0].removesuffix(".py")
        if package in ORDER:
            later = ORDER[ORDER.index(package) + 1 :]
            backwards |= {(file.as_posix(), one) for one in imports(path) if one in later}
    assert backwards - EXCEPTIONS == set()
    assert EXCEPTIONS - backwards == set(), "it is mended: take it from the list"


def test_every_package_has_its_place(source_folder: Path):
    there = {path.name for path in source_folder.iterdir() if (path / "__init__.py").is_file()}
    assert there - {"_native"} <= set(ORDER)
