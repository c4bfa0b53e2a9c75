"""Compares reports of stored runs as another checkout and this one render them.

``python tools/compare_reports.py OLD [RUN...]``: OLD is a checkout with its libraries next to its
sources; without runs all under benchmarks/results and docs/examples are rendered, as text, JSON,
CSV and page. Prints what differs, and ends with 1 where something does.
"""

import contextlib
import difflib
import importlib.machinery
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORMS = {"show": (), "json": ("--json",), "csv": ("--csv",), "page": ("--out",)}


def main(old: str, *runs: str) -> int:
    """Print what differs and return the exit code."""
    if not Path(old, "src", "lanescope").is_dir():
        print(f"{old} is no checkout of lanescope: it has no src/lanescope", file=sys.stderr)
        return 2
    tops = (ROOT / "benchmarks" / "results", ROOT / "docs" / "examples")
    stored = [one.parent for top in tops for one in sorted(top.rglob("manifest.json"))]
    wanted = [Path(run).resolve() for run in runs] or stored
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, name) for name in ("old", "new")]
        begun = [begin(*both, wanted) for both in zip((Path(old), ROOT), folders, strict=True)]
        codes = [one.wait() for one in begun]
        if any(codes):
            return 2
        names = sorted({one.name for folder in folders for one in folder.iterdir()})
        differing = [name for name in names if differs(name, folders)]
    print(f"{len(differing)} of {len(names)} outputs of {len(wanted)} runs differ")
    return 1 if differing else 0


def begin(checkout: Path, folder: Path, runs: list[Path]) -> "subprocess.Popen[bytes]":
    """Begin to render runs by a checkout into a new folder."""
    folder.mkdir()
    more = {"PYTHONPATH": str(checkout.resolve() / "src"), "XDG_DATA_HOME": str(folder.parent)}
    command = [sys.executable, __file__, "--render", *map(str, runs)]
    return subprocess.Popen(command, cwd=folder, env=os.environ | more | {"COLUMNS": "100"})


def differs(name: str, folders: list[Path]) -> bool:
    """Print the first lines of how an output differs, cut; return whether it does."""
    texts = [(one / name).read_text().splitlines() for one in folders if (one / name).exists()]
    old, new = texts if len(texts) == 2 else ([], ["is there once only"])
    for line in list(difflib.unified_diff(old, new, f"old {name}", f"new {name}", n=0))[:20]:
        print(line.rstrip()[:160])
    return old != new


def render(*runs: str) -> None:
    """Write each output of runs into the current folder, as the lanescope on the path does."""
    # an editable installation would come before PYTHONPATH
    sys.meta_path.insert(0, importlib.machinery.PathFinder)
    from lanescope.cli.app import app

    for run in runs:
        name = os.path.relpath(run, ROOT).replace("/", "-")
        for form, options in FORMS.items():
            page = (f"{name}.html",) if form == "page" else ()
            verb = "show" if form == "show" else "report"
            with open(f"{name}.{form}", "w") as out, contextlib.redirect_stdout(out):
                try:
                    app([verb, run, *options, *page], standalone_mode=False)
                except Exception as error:
                    print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("name a checkout to compare with: compare_reports.py OLD [RUN...]", file=sys.stderr)
        sys.exit(2)
    sys.exit(render(*sys.argv[2:]) if sys.argv[1] == "--render" else main(*sys.argv[1:]))
