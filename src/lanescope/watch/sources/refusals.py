"""What CUPTI and NVML mean when they refuse, and what to do."""

from __future__ import annotations

from lanescope.backend.reasons import reason_for
from lanescope.errors import NotMeasuredError
from lanescope.watch.cupti import CUPTI_REMEDY

COUNTERS_INSTEAD = "The driver's own counters (source 'counters') remain."
_AS_ROOT = (
    "Run lanescope as root or with CAP_SYS_ADMIN, or let everybody: 'options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0' in /etc/modprobe.d, then load the driver anew."
)
NO_PRIVILEGES = ("The driver lets administrators alone read hardware counters.", _AS_ROOT)
NO_CUPTI = (
    "There is no libcupti, the library that samples a GPU's link.",
    f"{CUPTI_REMEDY[:1].upper()}{CUPTI_REMEDY[1:]}.",
)
_NO_DRIVER = (
    "There is no NVIDIA driver that answers.",
    "Look at nvidia-smi; in a container, start it with --gpus all.",
)
_NO_FIELD = "The driver does not count the bytes of this GPU's link."

#: Reason and remedy, by the name of the error.
_KNOWN: dict[str, tuple[str, str | None]] = {
    "CUPTI_ERROR_HARDWARE_BUSY": (
        "Another profiler holds the GPU's hardware counters: Nsight, DCGM, or a second lanescope.",
        "End it; DCGM lets go with 'dcgmi profile --pause' until '--resume'.",
    ),
    "CUPTI_ERROR_INVALID_OPERATION": ("This process samples the GPU already.", "End that first."),
    "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES": NO_PRIVILEGES,
    "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES": (
        "The host of this virtual machine does not allow profiling of its virtual GPU.",
        "Its administrator can enable profiling for the vGPU (enable_profiling=1).",
    ),
    "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED": (
        "This virtual GPU has no hardware counters, or its host has not enabled them.",
        COUNTERS_INSTEAD,
    ),
    "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED": (
        "The GPU is split by MIG, and its link cannot be sampled from one part.",
        "Watch with MIG disabled (nvidia-smi -mig 0), or do without this source.",
    ),
    "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED": (
        "The GPU is in confidential-computing mode, which hides its counters.",
        COUNTERS_INSTEAD,
    ),
    "CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED": ("Mining GPUs have no counters for users.", None),
    "CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED": ("WSL gives no access to the GPU's counters.", None),
    "no PM sampling": ("The GPU is too old to sample its link.", COUNTERS_INSTEAD),
    "no such metrics": ("The GPU does not sample the bytes on its PCIe link.", COUNTERS_INSTEAD),
    "no driver": _NO_DRIVER,
    "no CUPTI": ("libcupti cannot be opened.", NO_CUPTI[1]),
    "too old": (
        "The library found is too old: PM sampling came with CUPTI 12.6.",
        "Install a newer one: pip install 'nvidia-cuda-cupti>=13'.",
    ),
    "CUPTI_ERROR_NOT_INITIALIZED": (
        "libcupti cannot begin; it may be newer than the driver.",
        "Name an older one in LANESCOPE_CUPTI, or install a newer driver.",
    ),
    "CUDA refused": _NO_DRIVER,
    "exclusive GPU": (
        "One process alone may use the GPU, and a probe would shut the program out.",
        "Let the administrator allow several: nvidia-smi -c DEFAULT.",
    ),
    "NVML_ERROR_NOT_SUPPORTED": (_NO_FIELD, None),
    "NVML_ERROR_INVALID_ARGUMENT": (_NO_FIELD, "A newer driver may."),
    "NVML_ERROR_NO_PERMISSION": ("The driver does not let this user read its counters.", _AS_ROOT),
    "NVML_ERROR_NOT_FOUND": ("The driver does not know this GPU.", "Look at nvidia-smi -L."),
    "NVML_ERROR_DRIVER_NOT_LOADED": _NO_DRIVER,
    "NVML_ERROR_GPU_IS_LOST": ("The GPU has fallen off the bus.", "The machine has to reboot."),
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": (
        "NVML and the loaded driver are of different versions.",
        "The driver was updated; reboot, or load it anew.",
    ),
}


def refusal(error: Exception) -> NotMeasuredError:
    """Explain a `NativeError` of a source."""
    call, code, name, detail, where = error.args
    if name not in _KNOWN:
        return reason_for(call, code, name, detail, where).error
    reason, remedy = _KNOWN[name]
    told = f"{detail} " if name in ("no CUPTI", "no driver", "too old") else ""
    return NotMeasuredError(f"{reason} [{told}{call}: {name} {code}, {where}]", remedy)
