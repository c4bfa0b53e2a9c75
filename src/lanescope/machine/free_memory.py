"""How much memory may be taken."""

from __future__ import annotations

import re
from pathlib import Path

from lanescope.machine import Machine
from lanescope.machine.nvml import Nvml

#: What is left to everybody else.
_USABLE_SHARE = 0.8
#: What CUDA takes of a GPU when a process first uses it: more than 390 MiB on an H200.
_CONTEXT_BYTES = 640 << 20


def available_host_bytes(
    proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the bytes that can be taken without swapping or being killed.

    The smaller of what the kernel calls available and what the control groups of
    this process leave; None where the kernel does not tell.
    """
    bounds = [b for b in (_kernel_available(proc), _cgroup_left(proc, cgroup)) if b is not None]
    return int(min(bounds) * _USABLE_SHARE) if bounds else None


def _kernel_available(proc: Path) -> int | None:
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def available_node_bytes(index: int, nodes: Path = Path("/sys/devices/system/node")) -> int | None:
    """Return the bytes that can be bound to a NUMA node; None where the kernel does not tell.

    What does not fit there goes to another node, and would be measured as this one's.
    """
    try:
        text = (nodes / f"node{index}" / "meminfo").read_text()
    except OSError:
        return None
    found = dict(re.findall(r"^Node \d+ (\S+): +(\d+) kB", text, re.M))
    if "MemFree" not in found:
        return None
    given_back = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
    return int(sum(int(found.get(name, 0)) for name in given_back) * 1024 * _USABLE_SHARE)


def _cgroup_left(proc: Path, cgroup: Path) -> int | None:
    """Return what the tightest group leaves: a job's limit is often set far below the root."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        lines = []
    left = [_left_in(cgroup)]
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if controllers and "memory" not in controllers.split(","):
            continue
        root = cgroup / "memory" if controllers else cgroup  # version 1, else 2
        # A container sees its own group as the root and may still be told the host's path.
        group = root.joinpath(*(p for p in path.split("/") if p not in ("", "..")))
        left += [_left_in(g) for g in (group, *group.parents) if g.is_relative_to(root)]
    return min((bytes_left for bytes_left in left if bytes_left is not None), default=None)


def _left_in(group: Path) -> int | None:
    for most, used, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            limit = int((group / most).read_text())
            taken = int((group / used).read_text())
        except (OSError, ValueError):  # 'max' is no limit
            continue
        return max(0, limit - max(0, taken - _statistic(group, cached)))
    return None


def _statistic(group: Path, name: str) -> int:
    """Return a line of a group's memory.stat: cached files are given back when asked for."""
    try:
        lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
        return next((int(value) for key, value in lines if key == name), 0)
    except (OSError, ValueError):
        return 0


def free_bytes(machine: Machine) -> dict[str, int]:
    """Return for each part of a machine what may be taken of its memory now, as far as known."""
    if machine.described:
        sizes = [(n.id, n.memory_bytes) for n in machine.nodes]
        sizes += [(g.id, g.memory_bytes) for g in machine.gpus]
        return {part: int(size * _USABLE_SHARE) for part, size in sizes if size is not None}
    free: dict[str, int] = {}
    for node in machine.nodes:
        bounds = (available_host_bytes(), available_node_bytes(node.index))
        if known := [b for b in bounds if b is not None]:
            free[node.id] = min(known)
    nvml = Nvml.open() if machine.gpus else None
    for gpu in machine.gpus:
        left = nvml.free_bytes(gpu.uuid) if nvml is not None and gpu.uuid is not None else None
        if left is not None:
            free[gpu.id] = int(max(0, left - _CONTEXT_BYTES) * _USABLE_SHARE)
    return free
