"""How a verb ends that runs somebody else's program, and what becomes of an error of our own."""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback
from datetime import datetime
from pathlib import Path


class ProgramEnded(Exception):  # noqa: N818 - no error: how its program ended
    """Ends lanescope with the exit code of a program that it ran."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def report_fault(error: BaseException) -> str:
    """Write where an unexpected error came from, and return one sentence about it."""
    from lanescope._version import version_text

    lines = [
        version_text(),
        f"Python {platform.python_version()}, {platform.platform()}",
        f"command: {sys.argv}",
        "",
        *traceback.format_exception(error),
    ]
    kind = type(error).__name__
    what = " ".join(str(error).split())[:200]
    path = _write("\n".join(lines))
    where = f"what it was doing is in {path}" if path else "and its report cannot be written"
    return f"a fault of lanescope's own ({kind}: {what}); {where}; please send that to its makers"


def _write(text: str) -> Path | None:
    from lanescope.store.folders import default_runs_folder

    name = f"fault-{datetime.now():%Y%m%d-%H%M%S-%f}.txt"
    for folder in (default_runs_folder().parent / "faults", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return folder / name
    return None
