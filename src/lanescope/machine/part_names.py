"""Names of parts and their numbers: ``h0``, ``g3``, and of several nodes at once ``n1.g3``.

The parts of a machine that is several nodes are numbered in one row, those of each node from a
multiple of 1,000 on: ``n0.g3`` is number 1003 and ``n1.g3`` number 2003. In which order CUDA
numbers GPUs is chosen here, too, in processes that are lanescope's alone.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from lanescope.errors import InputError

#: A NUMA node (h) or a GPU (g), perhaps of one of several nodes.
PART = r"(?:n(?:0|[1-9][0-9]{0,2})\.)?[hg][0-9]+"
_STRIDE = 1000
#: Names whose meaning is remembered: more than any machine has.
_NAMES = 4096
#: Which the driver reads at the first call of CUDA.
ORDER_VARIABLE = "CUDA_DEVICE_ORDER"
_BY_ADDRESS = "PCI_BUS_ID"
_set_here: list[str] = []


def part_name(kind: str, number: int) -> str:
    """Return the name of a part by its kind, ``h`` or ``g``, and its number.

    >>> part_name("g", 3), part_name("g", 2003)
    ('g3', 'n1.g3')
    """
    node, own = divmod(number, _STRIDE)
    return f"{kind}{own}" if node == 0 else f"n{node - 1}.{kind}{own}"


@lru_cache(maxsize=_NAMES)
def part_number(name: str) -> int:
    """Return the number of a part in its machine.

    >>> part_number("h1"), part_number("n0.h1")
    (1, 1001)
    """
    node, own = node_of(name), int(re.split("[hg]", name)[-1])
    return own if node is None else number_on(node, own)


def number_on(node: int, own: int) -> int:
    """Return the number that a part of a node has among those of all nodes.

    Raises
    ------
    InputError
        If the part's own number leaves no room for those of the next node.
    """
    if own >= _STRIDE:
        raise InputError(f"part {own} of n{node}: of several nodes numbers end at {_STRIDE - 1}")
    return (node + 1) * _STRIDE + own


def own_number(number: int) -> int:
    """Return the number that a part has on its own node, which CUDA and the kernel know it by."""
    return number % _STRIDE


@lru_cache(maxsize=_NAMES)
def node_of(name: str) -> int | None:
    """Return which of several nodes a part is of; None for the only one.

    >>> node_of("n1.g3"), node_of("g3")
    (1, None)
    """
    node, dot, _ = name.partition(".")
    return int(node[1:]) if dot else None


@lru_cache(maxsize=_NAMES)
def is_gpu(name: str) -> bool:
    """Whether a part is a GPU."""
    return name.rpartition(".")[2].startswith("g")


def is_numa_node(name: str) -> bool:
    """Whether a part is a NUMA node."""
    return name.rpartition(".")[2].startswith("h")


def number_by_address() -> None:
    """Have CUDA number GPUs as nvidia-smi and people do, unless somebody has chosen an order.

    For the command line: it changes the environment, which CUDA reads at its first call. The
    package never calls it, as it is a guest in its caller's process.
    """
    if ORDER_VARIABLE not in os.environ:
        os.environ[ORDER_VARIABLE] = _BY_ADDRESS
        _set_here.append(_BY_ADDRESS)


def order_is_ours() -> bool:
    """Return whether the order is the one that `number_by_address` has set."""
    return bool(_set_here) and os.environ.get(ORDER_VARIABLE) == _set_here[0]
