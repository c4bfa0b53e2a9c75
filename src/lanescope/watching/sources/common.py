"""What the sources of counters have in common: their beginning and their end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lanescope._core import native
from lanescope.codec.fields import from_attributes
from lanescope.codec.files import write_atomically
from lanescope.engine.core import reason_for
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Gpu, Machine
from lanescope.trace.spool_records import sidecar_of
from lanescope.trace.watch_folder import SampleLearning
from lanescope.watching.sources import Availability, SourceReport
from lanescope.watching.sources.injection import CUPTI_REMEDY

COUNTERS_INSTEAD = "The driver's own counters (source 'counters') remain."
_AS_ROOT = (
    "Run lanescope as root or with CAP_SYS_ADMIN (a container: --cap-add SYS_ADMIN), or let "
    "everybody: 'options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0' in /etc/modprobe.d, then load the driver anew."
)
NO_PRIVILEGES = ("The driver lets administrators alone read hardware counters.", _AS_ROOT)
NO_CUPTI = (
    "There is no libcupti, the library that samples a GPU's link.",
    CUPTI_REMEDY,
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
    "no CUPTI": ("libcupti cannot be opened.", CUPTI_REMEDY),
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

#: What a sampler says of itself at its end, as it stands next to its spool.
_REPORTED = (
    *("samples", "lost_samples", "gaps", "restarts", "reads", "asked", "contradictions"),
    *("decode_cpu_seconds", "evaluate_cpu_seconds", "wall_seconds", "restart_seconds"),
    *("changes", "errors"),
)


class OutsideSource:
    """What sources have in common that watch from outside: the program need not take part."""

    def prepare(self) -> None:
        """Do nothing: the start takes no time."""

    def environment(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}


def opened_elsewhere(opens: Callable[[Path], object], spool: Path) -> None:
    """Open what writes a spool as a trial, with one that is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        opens(Path(folder) / spool.name)


def refusal(error: Exception) -> NotMeasuredError:
    """Explain a `NativeError` of a source."""
    call, code, name, detail, where = error.args
    if name not in _KNOWN:
        return reason_for(call, code, name, detail, where).error
    reason, remedy = _KNOWN[name]
    detail_words = f"{detail} " if name in ("no CUPTI", "no driver", "too old") else ""
    return NotMeasuredError(f"{reason} [{detail_words}{call}: {name} {code}, {where}]", remedy)


def unusable(machine: Machine, gpu: Gpu) -> Availability | None:
    """Say why no source can watch a GPU; None when that is not so."""
    if machine.described:
        return Availability(False, "A machine that is only described cannot be watched.")
    if gpu not in machine.gpus:
        return Availability(False, f"{machine.name} has no {gpu.id}.", "Look at lanescope topo.")
    if gpu.unavailable is not None:
        return Availability(False, gpu.unavailable)
    return None


def tried(trial: Callable[[], object]) -> Availability:
    """Say whether a trial succeeds, and if not why."""
    try:
        trial()
    except native.NativeError as error:
        reason = refusal(error)
    except NotMeasuredError as error:
        reason = error
    else:
        return Availability(True)
    return Availability(False, reason.reason, reason.remedy)


def uuid_of(gpu: Gpu) -> str:
    """Return what NVML calls a GPU.

    Raises
    ------
    NotMeasuredError
        If the machine does not tell.
    """
    if gpu.uuid is None:
        raise NotMeasuredError(f"The driver does not tell the UUID of {gpu.id}.")
    return gpu.uuid


def finish(report: native.CounterReport, spool: Path, *, second: bool = False) -> SourceReport:
    """Write what a sampler tells next to its spool, and return it.

    Parameters
    ----------
    second
        Whether the sampler has another spool, beside which its processor time stands.
    """
    learned = _learned(report)
    content = {
        **{name: getattr(report, name) for name in _REPORTED},
        "learned": None if learned is None else dataclasses.asdict(learned),
        "cpu_seconds": None if second else report.cpu_seconds,
    }
    write_sidecar(spool, content)
    return report_of(report, learned)


def report_of(
    report: native.CounterReport | native.ProbeReport, learned: SampleLearning | None = None
) -> SourceReport:
    """Return what the core says of a sampler or a probe at its end."""
    why = " ".join(report.errors) or None
    return from_attributes(SourceReport, report, reason=why, learned=learned)


def _learned(report: native.CounterReport) -> SampleLearning | None:
    if not report.formula:
        return None
    return SampleLearning(
        report.formula,
        report.sample_bytes,
        report.learned_rows,
        report.learned_columns,
        report.begun_anew,
        report.learning_seconds,
    )


def write_sidecar(spool: Path, content: Mapping[str, Any]) -> None:
    """Write what a sampler tells next to its spool, if that can be; the spool tells its end."""
    with contextlib.suppress(OSError, InputError):
        write_atomically(sidecar_of(spool), json.dumps(content).encode(), inner=2)


def together(reports: list[SourceReport]) -> SourceReport:
    """Return one report of several samplers that worked at the same time."""
    return SourceReport(
        reason=" ".join(r.reason for r in reports if r.reason) or None,
        samples=sum(r.samples or 0 for r in reports),
        lost_samples=sum(r.lost_samples or 0 for r in reports),
        gaps=sum(r.gaps or 0 for r in reports),
        asked=sum(r.asked or 0 for r in reports),
        cpu_seconds=sum(r.cpu_seconds or 0.0 for r in reports),
        wall_seconds=max((r.wall_seconds or 0.0 for r in reports), default=None),
    )
