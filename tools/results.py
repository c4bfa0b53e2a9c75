"""Lists what lies under benchmarks/results against its rule (benchmarks/results/README.md).

``python tools/results.py`` prints every file that no page, test or script cites, every run over
the limit of its size, what its machine's README does not explain, and texts that name a GPU or a
path of the machine; it ends with 1 where there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
RUN_BYTES = 2 << 20
FILE_BYTES = 512 << 10
CITING = {".md", ".py", ".sh", ".toml"}
"""Files that may cite a result: pages, tests, scripts, machine files."""
TEXTS = {".csv", ".json", ".toml", ".txt"}
NAMING = re.compile(
    r"(?<![\w/.])/(?:home|opt|root|tmp|work)/\w"
    r"|GPU-(?!0{8}-)[0-9a-f]{8}-[0-9a-f]{4}-"
)
"""A path where something was run or installed, and a GPU's UUID that is not zeros."""


def main() -> int:
    """Print what breaks the rule and return the exit code."""
    wrong = [f"not cited: {one}" for one in uncited()]
    wrong += [f"too large: {one}, {size} bytes" for one, size in too_large()]
    wrong += [f"not in its README: {one}" for one in unexplained()]
    wrong += [f"names a machine: {one}" for one in unclean()]
    print("\n".join(wrong) or "benchmarks/results follows its rule")
    return 1 if wrong else 0


def uncited() -> list[PurePosixPath]:
    """Return the files that nothing cites, by their place under benchmarks/results."""
    named = cited()
    files = (one.relative_to(RESULTS) for one in tracked("benchmarks/results"))
    return [
        PurePosixPath(one)
        for one in files
        if one.name != "README.md" and not named & places_of(one)
    ]


def too_large() -> list[tuple[PurePosixPath, int]]:
    """Return runs over RUN_BYTES, and files of no run over FILE_BYTES."""
    sizes: dict[PurePosixPath, int] = {}
    for one in tracked("benchmarks/results"):
        run = run_of(one)
        key = PurePosixPath((run or one).relative_to(RESULTS))
        sizes[key] = sizes.get(key, 0) + one.stat().st_size
    return [
        (key, size)
        for key, size in sizes.items()
        if size > (RUN_BYTES if (RESULTS / key).is_dir() else FILE_BYTES)
    ]


def unexplained() -> list[PurePosixPath]:
    """Return what lies in a machine's folder and is not named in the README there."""
    files = (one.relative_to(RESULTS) for one in tracked("benchmarks/results"))
    entries = sorted({PurePosixPath(*one.parts[:2]) for one in files if len(one.parts) > 1})
    return [one for one in entries if one.name != "README.md" and not explained(one)]


def unclean() -> list[PurePosixPath]:
    """Return the texts that name a GPU, or a path of the machine."""
    return [
        PurePosixPath(one.relative_to(RESULTS))
        for one in tracked("benchmarks/results")
        if one.suffix in TEXTS and NAMING.search(one.read_text(encoding="utf-8"))
    ]


def explained(entry: PurePosixPath) -> bool:
    """Return whether the README of an entry's machine names it or the run that it belongs to."""
    readme = RESULTS / entry.parent / "README.md"
    return readme.exists() and f"`{entry.stem}" in readme.read_text(encoding="utf-8")


def run_of(file: Path) -> Path | None:
    """Return the run folder that a file lies in: the outermost one with a machine."""
    holding = [one for one in file.parents if (one / "machine.toml").exists()]
    return holding[-1] if holding else None


def cited() -> set[str]:
    """Return files and folders under benchmarks/results that a text names."""
    machines = "|".join(one.name for one in RESULTS.iterdir() if one.is_dir())
    place = re.compile(rf"(?<!data/)\b(?:{machines})/[\w./-]*[\w-]")
    named: set[str] = set()
    for text in citing_texts():
        named.update(place.findall(re.sub(r'"\s*/\s*"', "/", text)))
    return named


def citing_texts() -> Iterable[str]:
    """Return the texts of all pages, tests and scripts outside of benchmarks/results."""
    for file in tracked("."):
        if file.suffix in CITING and RESULTS not in file.parents:
            yield file.read_text(encoding="utf-8")


def places_of(file: Path) -> set[str]:
    """Return the names by which a file is cited: its own, its folders', its siblings' of its stem.

    What ``check`` printed into ``check.txt`` belongs to the run ``check/``, and vice versa.
    """
    folders = [one for one in (file, *file.parents) if len(one.parts) > 1]
    siblings = [
        one for place in folders for one in (RESULTS / place.parent).glob(place.stem + ".*")
    ]
    named = [one.relative_to(RESULTS).as_posix() for one in siblings]
    return {*named, *(one.as_posix() for one in folders), file.with_suffix("").as_posix()}


def tracked(folder: str) -> list[Path]:
    """Return the files of a folder that git knows and that are there."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    files = (ROOT / one for one in listed.stdout.split("\0") if one)
    return sorted(file for file in files if file.is_file())


if __name__ == "__main__":
    sys.exit(main())
