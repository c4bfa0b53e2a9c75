"""The guests: what machine QEMU makes up, as arguments of qemu-system-x86_64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node: its CPUs, such as ``0-1``, and its memory; either may be missing."""

    cpus: str | None
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Guest:
    """A machine with two CPUs on each socket."""

    sockets: int
    nodes: tuple[Node, ...]


GUESTS = {
    "2node": Guest(2, (Node("0-1", 1536), Node("2-3", 1536))),
    "memory-only-node": Guest(2, (Node("0-1", 1536), Node("2-3", 1536), Node(None, 512))),
    "cpu-only-node": Guest(3, (Node("0-1", 1536), Node("2-3", 1536), Node("4-5", 0))),
}
_NEAR, _FAR = 10, 21  # as the firmware of machines with two sockets tells


def arguments(name: str, kernel: Path, initrd: Path, disk: Path) -> list[str]:
    """Return QEMU's arguments: software emulation, no network, the console on stdout."""
    guest = GUESTS[name]
    memory = sum(node.memory_mib for node in guest.nodes)
    words = "console=ttyS0 root=/dev/vda rootfstype=ext4 rw fastboot panic=-1 quiet init=/init"
    return [
        *("-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", f"{memory}M"),
        *("-smp", f"{2 * guest.sockets},sockets={guest.sockets},cores=2,threads=1"),
        *_nodes(guest.nodes),
        *(
            "-kernel",
            str(kernel),
            "-initrd",
            str(initrd),
            "-append",
            f"{words} lanescope.guest={name}",
        ),
        *("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
        *("-nic", "none", "-display", "none", "-serial", "stdio", "-monitor", "none"),
        "-no-reboot",
    ]


def _nodes(nodes: tuple[Node, ...]) -> list[str]:
    words: list[str] = []
    for index, node in enumerate(nodes):
        text = f"node,nodeid={index}"
        if node.cpus is not None:
            text += f",cpus={node.cpus}"
        if node.memory_mib:
            words += ["-object", f"memory-backend-ram,id=m{index},size={node.memory_mib}M"]
            text += f",memdev=m{index}"
        words += ["-numa", text]
    for a in range(len(nodes)):
        for b in range(len(nodes)):
            words += ["-numa", f"dist,src={a},dst={b},val={_NEAR if a == b else _FAR}"]
    return words
