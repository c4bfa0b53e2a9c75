"""NVML without a GPU: a made-up library that answers, refuses, or is not there."""

import ctypes
import os
import sys
import types

import pytest

from lanescope.machine.nvml import Nvml


class NVMLError(Exception):
    pass


def refuse(*_):
    raise NVMLError("Not Supported")


class FabricInfo(ctypes.Structure):
    """As NVML's own, with what is read of it."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("clusterUuid", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint),
        ("state", ctypes.c_uint),
    )


@pytest.fixture
def library(monkeypatch):
    fake = types.ModuleType("pynvml")
    fake.NVMLError = NVMLError
    fake.NVML_NVLINK_MAX_LINKS = 2
    fake.NVML_P2P_CAPS_INDEX_NVLINK = 2
    fake.NVML_P2P_STATUS_OK = 0
    fake.NVML_FI_DEV_NVLINK_GET_SPEED = 164
    fake.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON = 90
    fake.nvmlInit = lambda: None
    fake.nvmlSystemGetDriverVersion = lambda: b"580.1"
    fake.nvmlSystemGetCudaDriverVersion_v2 = lambda: 13000
    fake.nvmlDeviceGetCount = lambda: 1
    fake.nvmlDeviceGetHandleByIndex = lambda i: f"handle {i}"
    fake.nvmlDeviceGetHandleByUUID = lambda uuid: "handle 0" if uuid == "GPU-0" else refuse()
    fake.nvmlDeviceGetCurrPcieLinkGeneration = lambda h: 5
    fake.nvmlDeviceGetCurrPcieLinkWidth = lambda h: 16
    fake.nvmlDeviceGetUtilizationRates = lambda h: types.SimpleNamespace(gpu=87)
    processes = [types.SimpleNamespace(pid=p) for p in (os.getpid(), 4242)]
    fake.nvmlDeviceGetComputeRunningProcesses = lambda h: processes
    fake.c_nvmlGpuFabricInfo_v2_t = FabricInfo
    fake.nvmlGpuFabricInfo_v2 = 2
    fake.NVML_GPU_FABRIC_STATE_COMPLETED = 3
    fake.__getattr__ = lambda name: refuse  # everything else is not supported
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_what_is_not_supported_is_none(library):
    (gpu,) = Nvml.open().describe()["gpus"]
    assert (gpu["generation"], gpu["width"]) == (5, 16)
    assert gpu["mig"] is gpu["memory_bytes"] is gpu["compute_mode"] is None
    assert gpu["nvlinks"] == []


def test_a_gpu_that_has_fallen_off_is_still_counted(library):
    library.nvmlDeviceGetHandleByIndex = refuse
    assert Nvml.open().describe()["gpus"] == [{"index": 0}]


def test_live_questions(library):
    nvml = Nvml.open()
    assert nvml.link_state("GPU-0") == (5, 16)
    assert nvml.busy("GPU-0") == (87, [4242])  # our own process is not another one
    assert nvml.replay_counter("GPU-0") is None
    assert nvml.link_state("GPU-unknown") is None
    assert nvml.busy("GPU-unknown") == (None, [])


def test_no_driver_is_a_reason(library):
    library.nvmlInit = refuse
    assert Nvml.open() is None
    assert Nvml.open_or_reason() == (None, "Not Supported")


def test_a_gpu_in_use_by_others(library):
    assert Nvml.open().describe()["gpus"][0]["in_use"] is True
    library.nvmlDeviceGetComputeRunningProcesses = lambda h: [
        types.SimpleNamespace(pid=os.getpid())
    ]
    assert Nvml.open().describe()["gpus"][0]["in_use"] is False
    library.nvmlDeviceGetComputeRunningProcesses = refuse
    assert Nvml.open().describe()["gpus"][0]["in_use"] is None


@pytest.mark.parametrize(
    ("count", "status", "peers"),
    [(2, lambda *_: 0, [1]), (2, lambda *_: 3, []), (2, refuse, None), (1, lambda *_: 0, None)],
)
def test_peers_over_nvlink(library, count, status, peers):
    library.nvmlDeviceGetCount = lambda: count
    library.nvmlDeviceGetP2PStatus = status
    assert Nvml.open().describe()["gpus"][0]["nvlink_peers"] == peers


@pytest.mark.parametrize(
    ("cluster", "state", "domain"),
    [(7, 3, "07070707-0707-0707-0707-070707070707/5"), (0, 3, None), (7, 1, None)],
)
def test_a_domain_of_many_nodes_is_known_once_it_is_made(library, cluster, state, domain):
    def tell(handle, pointer):
        info = pointer._obj
        info.clusterUuid[:] = bytes([cluster] * 16)
        info.cliqueId, info.state = 5, state
        return 0

    library.nvmlDeviceGetGpuFabricInfoV = tell
    assert Nvml.open().describe()["gpus"][0]["nvlink_domain"] == domain


@pytest.mark.parametrize(("feature", "on"), [(0, False), (1, True), (None, None)])
def test_confidential_computing_is_known(library, feature, on):
    library.NVML_CC_SYSTEM_FEATURE_DISABLED = 0
    if feature is not None:
        state = types.SimpleNamespace(ccFeature=feature)
        library.nvmlSystemGetConfComputeState = lambda: state
    assert Nvml.open().describe()["confidential"] is on
