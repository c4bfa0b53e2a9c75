"""What the Linux kernel itself says of nodes, pages and threads, without any library's help."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import re
from collections import Counter
from pathlib import Path

_NODES = Path("/sys/devices/system/node")
_MACHINE = platform.machine()
#: Numbers of system calls that the C library has no function for.
_CALLS = {
    "x86_64": {"mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239, "move_pages": 279},
    "aarch64": {"mbind": 235, "set_mempolicy": 237, "get_mempolicy": 236, "move_pages": 239},
}.get(_MACHINE)
_MASK_BITS = 1024
_PROCESSOR = 38  # which CPU a thread last ran on: field 39 of its stat file

DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL, PREFERRED_MANY = 0, 1, 2, 3, 4, 5


def nodes(which: str = "online") -> list[int]:
    """Numbers of nodes: ``online``, ``has_cpu`` or ``has_memory``; [0] without NUMA."""
    try:
        return numbers((_NODES / which).read_text())
    except OSError:
        return [0]


def cpus_of(node: int) -> list[int]:
    return numbers((_NODES / f"node{node}" / "cpulist").read_text())


def numbers(text: str) -> list[int]:
    """Numbers of a list such as ``0-1,4``."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def all_allowed() -> bool:
    """Whether this process may use the CPUs and the memory of every node."""
    if len(nodes()) < 2:
        return True
    status = Path("/proc/self/status").read_text()
    memory = re.search(r"^Mems_allowed_list:\s*(\S*)", status, re.M)
    cpus = {cpu for node in nodes("has_cpu") for cpu in cpus_of(node)}
    return (
        memory is not None
        and set(nodes("has_memory")) <= set(numbers(memory[1]))
        and cpus <= os.sched_getaffinity(0)
    )


def can_ask() -> bool:
    """Whether the kernel answers where pages lie and what the policy is."""
    if _CALLS is None or len(nodes()) < 2:
        return False
    try:
        policy()
    except OSError:
        return False
    return True


def policy() -> tuple[int, set[int]]:
    """Mode and nodes of the calling thread's memory policy."""
    mode = ctypes.c_int()
    mask = (ctypes.c_uint64 * (_MASK_BITS // 64))()
    _call("get_mempolicy", ctypes.byref(mode), mask, _MASK_BITS, None, 0)
    return mode.value, {bit for bit in range(_MASK_BITS) if mask[bit // 64] >> bit % 64 & 1}


def set_policy(mode: int, on: set[int]) -> None:
    mask = (ctypes.c_uint64 * (_MASK_BITS // 64))()
    for bit in on:
        mask[bit // 64] |= 1 << bit % 64
    _call("set_mempolicy", mode, mask if on else None, _MASK_BITS if on else 0)


def pages(begin: int, size: int) -> Counter[int]:
    """How many pages of an area lie on which node; negative numbers are errors."""
    count = size // mmap.PAGESIZE
    addresses = (ctypes.c_void_p * count)(*range(begin, begin + size, mmap.PAGESIZE))
    status = (ctypes.c_int * count)()
    _call("move_pages", 0, ctypes.c_ulong(count), addresses, None, status, 0)
    return Counter(status)


def fresh_pages(size: int) -> Counter[int]:
    """Where pages lie that the calling thread takes now, under its own policy."""
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        for page in range(0, size, mmap.PAGESIZE):
            area[page] = 1
        first = ctypes.c_char.from_buffer(area)
        where = pages(ctypes.addressof(first), size)
        del first
    return where


def bound_areas() -> dict[int, str]:
    """Begin of each area of this process that has a policy of its own, and that policy."""
    lines = Path("/proc/self/numa_maps").read_text().splitlines()
    split = (line.split() for line in lines)
    return {int(words[0], 16): words[1] for words in split if words[1] != "default"}


def size_of_area(begin: int) -> int:
    maps = Path("/proc/self/maps").read_text()
    match = re.search(rf"^0*{begin:x}-([0-9a-f]+) ", maps, re.M)
    assert match is not None
    return int(match[1], 16) - begin


def threads() -> dict[int, tuple[list[int], int]]:
    """For each thread of this process the CPUs it may run on, and the one it last ran on."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        allowed = re.search(r"^Cpus_allowed_list:\s*(\S*)", (task / "status").read_text(), re.M)
        after_name = (task / "stat").read_text().rpartition(")")[2].split()
        assert allowed is not None
        found[int(task.name)] = numbers(allowed[1]), int(after_name[_PROCESSOR - 2])
    return found


def _call(name: str, *arguments: object) -> None:
    assert _CALLS is not None
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(_CALLS[name]), *arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def large_areas(size: int) -> Counter[int]:
    """Pages of this process's areas of at least `size` bytes in memory, by node (numa_maps)."""
    where: Counter[int] = Counter()
    for line in Path("/proc/self/numa_maps").read_text().splitlines():
        by_node = {int(n): int(pages) for n, pages in re.findall(r" N(\d+)=(\d+)", line)}
        if "anon=" in line and sum(by_node.values()) * mmap.PAGESIZE >= size:
            where += Counter(by_node)
    return where


class _Instruction(ctypes.Structure):  # struct sock_filter
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):  # struct sock_fprog
    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


def forbid_binding() -> None:
    """Have the kernel refuse this process the calls of `_CALLS`, as containers do (seccomp)."""
    load_number, equal, answer = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    calls = sorted(_CALLS.values())
    program = [_Instruction(load_number, 0, 0, 0)]
    for left, number in zip(range(len(calls), 0, -1), calls, strict=True):
        program.append(_Instruction(equal, left, 0, number))  # over those left, and one more
    program += [_Instruction(answer, 0, 0, allow), _Instruction(answer, 0, 0, refuse)]
    instructions = (_Instruction * len(program))(*program)
    filtered = _Program(len(program), instructions)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, seccomp, by_filter = 38, 22, 2
    if prctl(no_new_privileges, 1, 0, 0, 0) or prctl(
        seccomp, by_filter, ctypes.byref(filtered), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "prctl")
