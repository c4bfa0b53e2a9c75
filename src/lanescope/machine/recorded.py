"""What a recorded machine may hold, checked before discovery takes it for answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from lanescope.codec.fields import Bound, FieldError, Positive, build
from lanescope.machine.pcie import Generation, Lanes

_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_NUMBER = re.compile(r"-?[0-9]{1,9}\s*")
Hex = Annotated[str, Bound("bytes in hex", lambda value: _HEX.fullmatch(value) is not None)]
Number = Annotated[str, Bound("a number", lambda value: _NUMBER.fullmatch(value) is not None)]


@dataclass(frozen=True, slots=True)
class _NvLink:
    """An NVLink as NVML tells it."""

    up: bool
    version: int | None
    speed_mbps: int | None
    remote_type: int | None
    remote_address: str | None


@dataclass(frozen=True, slots=True)
class _NvmlGpu:
    """A GPU as NVML tells it; one that does not answer has a number alone."""

    index: int
    name: str | None = None
    uuid: str | None = None
    vbios: str | None = None
    nvlink_domain: str | None = None
    pci_address: str | None = None
    memory_bytes: int | None = None
    generation: Generation | None = None
    width: Lanes | None = None
    max_generation: Generation | None = None
    max_width: Lanes | None = None
    compute_mode: str | None = None
    mig: bool | None = None
    in_use: bool | None = None
    nvlinks: tuple[_NvLink, ...] = ()
    nvlink_peers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class _CudaGpu:
    """A GPU as CUDA tells it."""

    index: int
    name: str
    pci_address: str
    uuid: str
    memory_bytes: int
    compute_major: int
    compute_minor: int
    multiprocessors: int
    async_engines: int
    memory_gbs: Positive | None = None
    peers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Nvml:
    """NVML's answers, or why there are none."""

    error: str | None = None
    driver: str | None = None
    cuda_version: int | None = None
    confidential: bool | None = None
    gpus: tuple[_NvmlGpu, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cuda:
    """CUDA's answers, or why there are none."""

    error: str | None = None
    detail: str | None = None
    devices: tuple[_CudaGpu, ...] = ()


@dataclass(frozen=True, slots=True)
class _Device:
    """A device of the PCI tree; the other attributes are texts as the kernel writes them."""

    config: Hex | None = None
    parent: str | None = None
    numa_node: Number | None = None


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The parts that are no plain values of `lanescope.machine.snapshot.Snapshot`."""

    nvml: _Nvml
    cuda: _Cuda
    pci: dict[str, _Device]
    dmi: Hex | None = None


def require_sound(table: Mapping[str, Any]) -> None:
    """Check the answers in a recorded machine's table.

    Raises
    ------
    FieldError
        If one cannot be, or the PCI tree is a ring.
    """
    recorded = build(_Recorded, table, others=True)
    for address in recorded.pci:
        above, parent = {address}, recorded.pci[address].parent
        while parent is not None and parent in recorded.pci:
            if parent in above:
                raise FieldError(f"the device {parent!r} is its own parent", "parent", "pci")
            above.add(parent)
            parent = recorded.pci[parent].parent
    addresses = [gpu.pci_address for gpu in recorded.cuda.devices]
    numbers = [gpu.index for gpu in recorded.cuda.devices]
    if len(set(addresses)) < len(addresses) or len(set(numbers)) < len(numbers):
        raise FieldError("a GPU is there twice", "devices", inside="cuda")
