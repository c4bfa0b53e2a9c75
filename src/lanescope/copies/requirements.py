"""What a machine must have for copies: parts, and room for their bytes; how much is free."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lanescope.copies.experiment import Experiment
from lanescope.errors import InputError, MissingPartError, argument, command
from lanescope.machine import Gpu, Machine
from lanescope.machine.nvml import Nvml
from lanescope.units.sizes import binary_text, size_text

#: Buffers of this size always fit.
_SMALLEST_BYTES = 1 << 20
#: What is left to everybody else.
_USABLE_SHARE = 0.8
#: What CUDA takes of a GPU when a process first uses it: more than 390 MiB on an H200.
_CONTEXT_BYTES = 640 << 20


def require_parts(machine: Machine, experiment: Experiment) -> None:
    """Refuse copies from or to parts that a machine has not. Raises `InputError`, as all do."""
    known = [n.id for n in machine.nodes] + [g.id for g in machine.gpus]
    for copy in experiment.copies:
        for part in (copy.source.part, copy.destination.part):
            if part not in known:
                raise missing_part(
                    machine,
                    f"there is no {part} in machine {machine.name!r}; it has {', '.join(known)}",
                )


def require_fits(machine: Machine, size_bytes: int, gpus: Sequence[Gpu] | None = None) -> None:
    """Refuse copies that no memory on their way could hold twice, there and back at once."""
    for gpu in machine.gpus if gpus is None else gpus:
        node = machine.nearest_node(gpu)
        for part, memory in ((gpu.id, gpu.memory_bytes), (node.id, node.memory_bytes)):
            if memory is not None and size_bytes > memory // 2:
                raise InputError(
                    f"a copy of {size_text(size_bytes)} does not fit twice into the "
                    f"{binary_text(memory)} of {part}; give a smaller size"
                )


def require_room(machine: Machine, experiment: Experiment) -> None:
    """Refuse copies that together take more memory than a part of the machine has."""
    sizes = {node.id: node.memory_bytes for node in machine.nodes}
    sizes |= {gpu.id: gpu.memory_bytes for gpu in machine.gpus}
    for part, needed in needed_bytes([experiment]).items():
        memory = sizes[part]
        if memory == 0:
            raise InputError(f"{part} has no memory of its own; name another node")
        if memory is not None and needed > memory:
            raise InputError(
                f"the copies take {binary_text(needed)} of {part} at once, which has "
                f"{binary_text(memory)}; give smaller sizes"
            )


def largest_sweep_bytes(machine: Machine, gpus: Sequence[Gpu]) -> int:
    """Return 2 GiB, or less where a quarter of some memory is less."""
    sizes = [2 << 30]
    sizes += [gpu.memory_bytes // 4 for gpu in gpus if gpu.memory_bytes is not None]
    if machine.described:
        sizes += [node.memory_bytes // 4 for node in machine.nodes if node.memory_bytes]
    else:
        sizes += [(available_host_bytes() or sizes[0] * 4) // 4]
    return min(sizes)


def missing_part(machine: Machine, sentence: str) -> InputError:
    """Return the error for a part that a machine lacks: of a described one it is the input's."""
    return InputError(sentence) if machine.described else MissingPartError(sentence)


def chosen_gpus(machine: Machine, indices: int | Sequence[int] | None) -> list[Gpu]:
    """Return the GPUs with these numbers, each once; the first one for None."""
    if not machine.gpus:
        raise missing_part(
            machine,
            f"machine {machine.name!r} has no GPU to measure; "
            f"{command('check')} measures host memory, and {argument.machine} takes a described "
            "machine",
        )
    known = {gpu.index: gpu for gpu in machine.gpus}
    first = machine.gpus[0].index if indices is None else indices
    wanted = [first] if isinstance(first, int) else first
    if not wanted:
        raise InputError("no GPU is named; give the number of one, or leave it out for the first")
    for index in wanted:
        if index not in known:
            numbers = ", ".join(map(str, known))
            raise missing_part(
                machine, f"there is no GPU {index} in machine {machine.name!r}; it has {numbers}"
            )
    return [known[index] for index in dict.fromkeys(wanted)]


def needed_bytes(experiments: Iterable[Experiment]) -> dict[str, int]:
    """Return for each part of the machine the bytes that its most demanding experiment takes.

    Buffers are kept from one experiment to the next, so that this is what a run takes.
    """
    most: dict[str, int] = {}
    for experiment in experiments:
        taken: Counter[str] = Counter()
        for copy in experiment.copies:
            for place in (copy.source, copy.destination):
                taken[place.part] += copy.bytes
        most |= {part: max(count, most.get(part, 0)) for part, count in taken.items()}
    return most


def fitting_size(
    wanted_bytes: int,
    experiments_at: Callable[[int], Sequence[Experiment]],
    free_bytes: Mapping[str, int],
) -> tuple[int, tuple[str, ...]]:
    """Return a size of copies that memory holds, and what to tell about it.

    Parameters
    ----------
    wanted_bytes
        Size asked for; halved until it fits, down to 1 MiB.
    experiments_at
        The experiments with copies of a size.
    free_bytes
        By part of the machine; parts that it does not name hold everything.
    """
    size, tight = wanted_bytes, None
    while size > _SMALLEST_BYTES:
        needed = needed_bytes(experiments_at(size))
        short = [p for p, n in needed.items() if n > free_bytes.get(p, n)]
        if not short:
            break
        tight = tight or (short[0], needed[short[0]])
        size = max(size // 2, _SMALLEST_BYTES)
    if tight is None:
        return size, ()
    part, bytes_needed = tight
    return size, (
        f"Copies of {size_text(size)} instead of {size_text(wanted_bytes)}: all at once they "
        f"would take {binary_text(bytes_needed)} of {part}, which has "
        f"{binary_text(free_bytes[part])} free.",
    )


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
