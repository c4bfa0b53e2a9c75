"""Writes tools/constraints.txt anew: python3.11 tools/pins.py, then run all tests.

For each group of requirements in pyproject.toml the newest versions that fit all of them, what they
need in turn, and the SHA-256 of every file of theirs for Linux that PyPI has. A package stands with
the first group that needs it. Run it with the oldest Python that lanescope runs on.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import build

HEADER = """\
# What lanescope is built and tested with, and the SHA-256 of every file for Linux.
# Written by tools/pins.py. Each group needs those above it, too; wheel needs tools alone.
"""
#: Wheels for other interpreters and older Pythons.
_NOT_OURS = re.compile(r"-(pp|graalpy|cp2|cp3\d-cp3\d|cp310-cp310|cp313-cp313t|cp314-cp314t)")
_JSON = {"Accept": "application/vnd.pypi.simple.v1+json"}
_LINUX = re.compile(r"-any\.whl$|[-.](many)?linux\w*_(x86_64|aarch64)(\.\w+)*\.whl$")


def resolved(wanted: list[str]) -> dict[str, str]:
    """The version of each package that requirements need, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--only-binary=:all:", "--report", str(report)]
        subprocess.run([*command, *wanted], check=True)
        found = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    return {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in found}


def hashes(name: str, version: str) -> list[str]:
    """Of a version's files that a machine with Linux may install."""
    request = urllib.request.Request(f"https://pypi.org/simple/{name}/", headers=_JSON)
    with urllib.request.urlopen(request) as answer:
        files = json.load(answer)["files"]
    ours = [
        one
        for one in files
        if f"-{version}-" in one["filename"]
        and _LINUX.search(one["filename"])
        and not _NOT_OURS.search(one["filename"])
    ]
    return sorted(one["hashes"]["sha256"] for one in ours)


def lines() -> Iterator[str]:
    groups = {group: build.required(group) for group in build.GROUPS}
    every = resolved([word for wanted in groups.values() for word in wanted])
    fixed = [f"{name}=={version}" for name, version in every.items()]
    written: set[str] = set()
    for group, wanted in groups.items():
        yield f"\n{build.GROUP_MARK}{group}\n"
        # of the same versions, so that no group moves another's
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as same:
            same.write("\n".join(fixed))
            same.flush()
            needed = resolved([*wanted, "--constraint", same.name])
        for name in sorted(needed.keys() - written):
            written.add(name)
            ends = "".join(f" \\\n    --hash=sha256:{value}" for value in hashes(name, every[name]))
            yield f"{name}=={every[name]}{ends}\n"


if __name__ == "__main__":
    build.CONSTRAINTS.write_text(HEADER + "".join(lines()))
