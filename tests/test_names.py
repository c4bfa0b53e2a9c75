"""A class has a name of its own, and files share a name where each is its package's."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

#: Names that several files have, by what they have in common.
SHARED = {
    "what every package may have": "__init__ __main__",
    "a thing of the package: its document, its stored folder, its pairs of ranks": (
        "arrays blocks charts document evidence exchange files folder host links parameters points "
        "ranks results run store"
    ),
    "an act of the package": "compare deciding measuring running",
    "a verb, in the packages that have a part in it": (
        "advise check copy fit latency live node report study what_if"
    ),
    "a source of a watch, and what is stored of it": "probe",
    "a command line of its own": "app",
    "arguments of Python calls; and the source that records the calls of a program": "calls",
}


def test_no_two_classes_have_one_name(source_folder: Path):
    homes: dict[str, list[str]] = {}
    for path in source_folder.rglob("*.py"):
        for name in re.findall(r"^ *class (\w+)", path.read_text(), re.MULTILINE):
            homes.setdefault(name, []).append(str(path))
    assert homes
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_files_share_a_name_only_where_it_is_said_why(source_folder: Path):
    counts = Counter(path.stem for path in source_folder.rglob("*.py"))
    shared = {name for name, count in counts.items() if count > 1}
    assert shared == {name for names in SHARED.values() for name in names.split()}
