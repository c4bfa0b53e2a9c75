"""Processes that run already, as /proc shows them."""

from __future__ import annotations

from pathlib import Path

_ZOMBIE, _DEAD = "Z", "X"
#: Of /proc/PID/stat, counted from the state on: when the process started.
_START_TIME = 19


def start_of(pid: int) -> str | None:
    """Return when a process started, in ticks, which tells it from a later one of its number.

    None when there is none that runs and may be seen.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # its name may hold anything
    return None if fields[0] in (_ZOMBIE, _DEAD) else fields[_START_TIME]


def command_line(pid: int) -> tuple[str, ...]:
    """Return a process's arguments; of those that have none, the name in brackets."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return (f"[process {pid}]",)
    return tuple(words.rstrip("\0").split("\0")) if words.strip("\0") else (f"[{name}]",)
