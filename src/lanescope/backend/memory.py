"""How much host memory may be taken."""

from __future__ import annotations

from pathlib import Path

#: What is left to everybody else.
_USABLE_SHARE = 0.8


def available_host_bytes(
    proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the bytes that can be taken without swapping or being killed.

    The smaller of what the kernel calls available and what the control group
    leaves; None where the kernel does not tell.
    """
    bounds = [b for b in (_kernel_available(proc), _cgroup_left(cgroup)) if b is not None]
    return int(min(bounds) * _USABLE_SHARE) if bounds else None


def _kernel_available(proc: Path) -> int | None:
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup_left(cgroup: Path) -> int | None:
    try:
        most = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        return None if most == "max" else max(0, int(most) - used)
    except (OSError, ValueError):
        return None
