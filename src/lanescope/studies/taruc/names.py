"""TARUC's own names of its parameters, and what they are called here.

One entry for each line of its parameter files, in their order. A number of doubles
is eight times as many bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lanescope.studies.taruc.parameters import WORD_BYTES


@dataclass(frozen=True, slots=True)
class Named:
    """A parameter under both names.

    Attributes
    ----------
    label
        TARUC's, as its files have it.
    section, key
        Ours; the section is empty for the general ones.
    kind
        What the value is: ``text``, ``bool`` or ``int``.
    factor
        What a number has to be multiplied with.
    """

    label: str
    section: str
    key: str
    kind: str = "int"
    factor: int = 1


def _range(section: str, what: str) -> tuple[Named, ...]:
    return (
        Named(f"Run {what}", section, "run", "bool"),
        Named("Range Min (bytes)", section, "min_bytes"),
        Named("Range Max (bytes)", section, "max_bytes"),
    )


NAMES: tuple[Named, ...] = (
    Named("Run Tag", "", "tag", "text"),
    Named("Use All GPUs", "", "all_gpus", "bool"),
    Named("Test All Mem Types", "", "all_memories", "bool"),
    Named("Run Burst Tests", "", "burst", "bool"),
    Named("Run Range Tests", "", "range", "bool"),
    Named("Run Sustained Tests", "", "sustained", "bool"),
    Named("Run Socket Effect Tests", "", "sockets", "bool"),
    Named("Test Access Patterns", "", "patterns", "bool"),
    Named("# Repeated Steps", "", "repeats"),
    Named("# Steps Per Magnitude", "", "steps_per_decade"),
    Named("Burst Block Size (bytes)", "", "burst_bytes"),
    *_range("overhead", "Memory Overhead Test"),
    *_range("host", "Host-Host Tests"),
    *_range("hostdev", "Host-Device Tests"),
    *_range("peer", "P2P Tests"),
    Named("Run NURMA Test", "nurma", "run", "bool"),
    Named("Memory Skip Gap Size (doubles)", "nurma", "gap_bytes", factor=WORD_BYTES),
    Named("Memory Block Size (doubles)", "nurma", "block_bytes", factor=WORD_BYTES),
    Named("Min # Random Accesses (doubles)", "nurma", "min_bytes", factor=WORD_BYTES),
    Named("Max # Random Accesses (doubles)", "nurma", "max_bytes", factor=WORD_BYTES),
    Named("Run Congestion Test", "contention", "run", "bool"),
    Named("# Repeated Operations", "contention", "repeats"),
    Named("Local Host Block Size (bytes)", "contention", "memory_bytes"),
    Named("QPI Host Block Size (bytes)", "contention", "socket_bytes"),
    Named("Host-Device Block Size (bytes)", "contention", "pcie_bytes"),
)

#: TARUC's headings, and the names of its benchmarks in the paper.
SECTIONS = {
    "memory overhead": "overhead",
    "host host bandwidth": "host",
    "host device bandwidth": "hostdev",
    "p2p bandwidth": "peer",
    "non uniform random memory access": "nurma",
    "resource congestion": "contention",
    "resource contention": "contention",
}

#: What the paper and TARUC's own print-out call them otherwise.
_ALSO = {
    "test all sockets": "Run Socket Effect Tests",
    "test host mem types": "Test All Mem Types",
    "use all devices": "Use All GPUs",
    "test all devices": "Use All GPUs",
    "ranged tests": "Run Range Tests",
    "burst tests": "Run Burst Tests",
    "sustained tests": "Run Sustained Tests",
    "burst block size": "Burst Block Size (bytes)",
    "number steps per magnitude": "# Steps Per Magnitude",
}


def normalised(label: str) -> str:
    """Return a label without case, units and signs.

    >>> normalised("Burst Block Size (bytes)"), normalised("# Repeated Steps")
    ('burst block size', 'repeated steps')
    """
    return " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\([^)]*\)", "", label).lower()))


def named(label: str, section: str) -> Named | None:
    """Return the parameter that TARUC calls so in a section (ours); None when it has none.

    Those of a section may stand at the top, too, where their name tells the section.
    """
    wanted = normalised(_ALSO.get(normalised(label), label))
    found = [n for n in NAMES if normalised(n.label) == wanted]
    mine = [n for n in found if n.section == section]
    if mine:
        return mine[0]
    return found[0] if not section and len(found) == 1 else None
