"""What NVML, the driver's management library, tells of GPUs and their links."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any
from uuid import UUID

#: Members of a field's value, by NVML's numbers of whole types.
_WHOLE = {1: "uiVal", 2: "ulVal", 3: "ullVal"}
_COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}


class Nvml:
    """An open connection to NVML. Every question may be answered by None: not told."""

    def __init__(self, library: ModuleType) -> None:
        self._n = library
        self._handles: dict[str, Any] = {}

    @staticmethod
    def open() -> Nvml | None:
        """Return a connection, or None where there is no NVML."""
        nvml, _ = Nvml.open_or_reason()
        return nvml

    @staticmethod
    def open_or_reason() -> tuple[Nvml | None, str | None]:
        """Return a connection, or NVML's reason why there is none."""
        try:
            import pynvml
        except ImportError:
            return None, "nvidia-ml-py is not installed"
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            return None, str(error)
        return Nvml(pynvml), None

    def describe(self) -> dict[str, Any]:
        """Return everything that discovery wants to know, as plain values."""
        count = self._get(self._n.nvmlDeviceGetCount) or 0
        return {
            "driver": self._get(self._n.nvmlSystemGetDriverVersion),
            "cuda_version": self._get(self._n.nvmlSystemGetCudaDriverVersion_v2),
            "confidential": self._confidential(),
            "gpus": [self._gpu(i, count) for i in range(count)],
        }

    def link_state(self, uuid: str) -> tuple[int, int] | None:
        """Return generation and width of a GPU's PCIe link at this moment."""
        generation = self._of(uuid, self._n.nvmlDeviceGetCurrPcieLinkGeneration)
        width = self._of(uuid, self._n.nvmlDeviceGetCurrPcieLinkWidth)
        return None if generation is None or width is None else (int(generation), int(width))

    def replay_counter(self, uuid: str) -> int | None:
        """Return how many packets the GPU's PCIe link has sent again so far."""
        count = self._of(uuid, self._n.nvmlDeviceGetPcieReplayCounter)
        return None if count is None else int(count)

    def counts(self, uuid: str, fields: Sequence[tuple[int, int]]) -> list[int | None]:
        """Return what some of NVML's fields count; None for each that is not told.

        Parameters
        ----------
        fields
            The number and the scope of each: which link it is of; 0 where there is but one.
        """
        read_fields = self._n.nvmlDeviceGetFieldValues
        values = self._of(uuid, lambda handle: read_fields(handle, list(fields)))
        if values is None:  # an old driver refuses all of them for one that it does not know
            every = [
                self._of(uuid, lambda handle, one=one: read_fields(handle, [one])) for one in fields
            ]
            values = [None if answer is None else answer[0] for answer in every]
        return [_count(value) for value in values]

    def free_bytes(self, uuid: str) -> int | None:
        """Return how much of a GPU's memory nobody holds."""
        memory = self._of(uuid, self._n.nvmlDeviceGetMemoryInfo)
        return None if memory is None else int(memory.free)

    def busy(self, uuid: str) -> tuple[int | None, list[int]]:
        """Return a GPU's load in percent, and the other processes that compute on it."""
        load = self._of(uuid, self._n.nvmlDeviceGetUtilizationRates)
        processes = self._of(uuid, self._n.nvmlDeviceGetComputeRunningProcesses) or []
        return (None if load is None else int(load.gpu)), _others(processes)

    def _of(self, uuid: str, call: Callable[..., Any]) -> Any:
        if uuid not in self._handles:
            self._handles[uuid] = self._get(self._n.nvmlDeviceGetHandleByUUID, uuid)
        handle = self._handles[uuid]
        return None if handle is None else self._get(call, handle)

    def _get(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            answer = call(*arguments)
        except self._n.NVMLError:
            return None
        return answer.decode() if isinstance(answer, bytes) else answer

    def _gpu(self, index: int, count: int) -> dict[str, Any]:
        n = self._n
        handle = self._get(n.nvmlDeviceGetHandleByIndex, index)
        if handle is None:  # fallen off the bus: known, but gives no answer
            return {"index": index}
        pci = self._get(n.nvmlDeviceGetPciInfo, handle)
        mig = self._get(n.nvmlDeviceGetMigMode, handle)
        memory = self._get(n.nvmlDeviceGetMemoryInfo, handle)
        mode = self._get(n.nvmlDeviceGetComputeMode, handle)
        processes = self._get(n.nvmlDeviceGetComputeRunningProcesses, handle)
        return {
            "index": index,
            "name": self._get(n.nvmlDeviceGetName, handle),
            "uuid": self._get(n.nvmlDeviceGetUUID, handle),
            "vbios": self._get(n.nvmlDeviceGetVbiosVersion, handle),
            "nvlink_domain": self._nvlink_domain(handle),
            "pci_address": None if pci is None else _address(pci.busId),
            "memory_bytes": None if memory is None else int(memory.total),
            "generation": self._get(n.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "width": self._get(n.nvmlDeviceGetCurrPcieLinkWidth, handle),
            "max_generation": self._get(n.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "max_width": self._get(n.nvmlDeviceGetMaxPcieLinkWidth, handle),
            "compute_mode": _COMPUTE_MODES.get(mode) if mode is not None else None,
            "mig": None if mig is None else bool(mig[0]),
            "in_use": None if processes is None else _others(processes) != [],
            "nvlinks": self._nvlinks(handle),
            "nvlink_peers": self._nvlink_peers(handle, [i for i in range(count) if i != index]),
        }

    def _confidential(self) -> bool | None:
        """Whether Confidential Computing is on."""
        state = self._get(self._n.nvmlSystemGetConfComputeState)
        return None if state is None else state.ccFeature != self._n.NVML_CC_SYSTEM_FEATURE_DISABLED

    def _nvlink_domain(self, handle: Any) -> str | None:
        """Cluster and clique of a GPU that the fabric manager has taken into one of many nodes."""
        n = self._n
        info = n.c_nvmlGpuFabricInfo_v2_t()
        info.version = n.nvmlGpuFabricInfo_v2
        if self._get(n.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info)) is None:
            return None
        cluster = bytes(info.clusterUuid)
        if info.state != n.NVML_GPU_FABRIC_STATE_COMPLETED or info.status or not any(cluster):
            return None
        return f"{UUID(bytes=cluster)}/{info.cliqueId}"

    def _nvlink_peers(self, handle: Any, others: list[int]) -> list[int] | None:
        """Other GPUs that this one may reach by NVLink; None where that is not told."""
        n = self._n
        peers = {i: self._get(n.nvmlDeviceGetHandleByIndex, i) for i in others}
        by_address = {
            i: self._get(n.nvmlDeviceGetP2PStatus, handle, peer, n.NVML_P2P_CAPS_INDEX_NVLINK)
            for i, peer in peers.items()
            if peer is not None
        }
        if not by_address or None in by_address.values():
            return None
        return [i for i, status in by_address.items() if status == n.NVML_P2P_STATUS_OK]

    def _nvlinks(self, handle: Any) -> list[dict[str, Any]]:
        n = self._n
        # newer drivers answer the first, older ones the second
        speed = self._field(handle, n.NVML_FI_DEV_NVLINK_GET_SPEED) or self._field(
            handle, n.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
        )
        links = []
        for number in range(n.NVML_NVLINK_MAX_LINKS):
            state = self._get(n.nvmlDeviceGetNvLinkState, handle, number)
            if state is None:  # no such link
                continue
            remote = self._get(n.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
            links.append(
                {
                    "up": state == 1,
                    "version": self._get(n.nvmlDeviceGetNvLinkVersion, handle, number),
                    "speed_mbps": speed,
                    "remote_type": self._get(n.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number),
                    "remote_address": None if remote is None else _address(remote.busId),
                }
            )
        return links

    def _field(self, handle: Any, field: int) -> int | None:
        values = self._get(self._n.nvmlDeviceGetFieldValues, handle, [field])
        if not values or values[0].nvmlReturn != 0:
            return None
        return int(values[0].value.uiVal)


def _count(value: Any) -> int | None:
    if value is None or value.nvmlReturn != 0 or value.valueType not in _WHOLE:
        return None
    return int(getattr(value.value, _WHOLE[value.valueType]))


def _others(processes: list[Any]) -> list[int]:
    return [int(p.pid) for p in processes if p.pid != os.getpid()]


def _address(bus_id: str | bytes) -> str:
    """NVML writes eight digits of domain in capitals, the kernel four in small ones."""
    text = (bus_id.decode() if isinstance(bus_id, bytes) else bus_id).lower()
    domain, _, rest = text.partition(":")
    return f"{int(domain, 16):04x}:{rest}"
