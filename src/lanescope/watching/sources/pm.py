"""The hardware's own samples of the bytes on a GPU's link, through CUPTI."""

from __future__ import annotations

import dataclasses
from functools import partial
from itertools import pairwise
from pathlib import Path

from lanescope._core import native
from lanescope.errors import NotMeasuredError
from lanescope.machine import Gpu, Machine
from lanescope.trace.counter_spool import counter_header
from lanescope.trace.timeline import NVLINK
from lanescope.trace.windows import window_text
from lanescope.watching.sources import Availability, SourceReport
from lanescope.watching.sources.common import (
    COUNTERS_INSTEAD,
    NO_CUPTI,
    NO_PRIVILEGES,
    OutsideSource,
    finish,
    opened_elsewhere,
    refusal,
    tried,
    unusable,
)
from lanescope.watching.sources.injection import find_cupti

_ADMIN_ONLY = "RmProfilingAdminOnly"
#: Bits of the capability set; either is enough.
_SYS_ADMIN, _PERFMON = 21, 38


def may_profile(proc: Path = Path("/proc")) -> bool:
    """Return False where the driver asks for an administrator and this process is none.

    What cannot be read stands in nobody's way: CUPTI has the last word.
    """
    parameters = _fields(proc / "driver/nvidia/params")
    if parameters.get(_ADMIN_ONLY) != "1":
        return True
    try:
        held = int(_fields(proc / "self/status").get("CapEff", ""), 16)
    except ValueError:
        return True
    return bool(held >> _SYS_ADMIN & 1 or held >> _PERFMON & 1)


def _fields(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


#: 10 kHz.
DEFAULT_INTERVAL_NS = 100_000
#: Each fetching costs about 1 ms of processor time, and a kill loses at most this.
DECODE_PERIOD_NS = 50_000_000
#: What GPUs received and sent over PCIe, protocol included.
_METRICS = ("pcie__read_bytes.sum", "pcie__write_bytes.sum")
#: Payload that GPUs received and sent over all of their NVLinks.
_NVLINK_METRICS = ("nvlrx__bytes_data_user.sum", "nvltx__bytes_data_user.sum")
#: What a sample takes of the hardware's buffer, which lies in host memory: on an H200 without
#: NVLinks, and on H100s with the payload of 18 of them.
_BYTES_PER_SAMPLE, _BYTES_PER_NVLINK_SAMPLE = 64, 1344
#: It holds two seconds, or what this holds: 0.8 s every 2 µs with NVLinks.
_MOST_BYTES = 512 << 20
_NO_METRICS = "no such metrics"
#: A sample takes up to 8 µs to be fetched: up to here it may have to be found out whether the rate
#: holds, which takes a third of a second, and to change it half a second or more.
_LONGEST_DOUBTED_NS = 10_000
_SETTLE_SECONDS = 3.0
_BUFFERED_NS = 2_000_000_000
_FEWEST_BYTES = 8 << 20
#: The architectures that cannot sample by time: Turing and GA100.
_NO_TIME_TRIGGER = {(7, 5), (8, 0)}


class PmSource(OutsideSource):
    """Samples one GPU's link in hardware.

    Parameters
    ----------
    gpu
        What to sample.
    folder
        Where its spool goes: ``pm.g0.bin`` for GPU 0.
    interval_ns
        From sample to sample.
    decode_period_ns
        From fetching to fetching of what the hardware has sampled.
    nvlink
        Whether to sample the GPU's NVLinks as well, into ``pm-nvlink.g0.bin``; where the GPU
        does not count them, its link to the host is sampled alone.
    """

    def __init__(
        self,
        gpu: Gpu,
        folder: Path,
        *,
        interval_ns: int = DEFAULT_INTERVAL_NS,
        nvlink: bool = False,
        decode_period_ns: int = DECODE_PERIOD_NS,
    ) -> None:
        self.gpu = gpu
        self.nvlink = nvlink
        self.decode_period_ns = decode_period_ns
        self.interval_ns = interval_ns
        self.spool = folder / f"pm.{gpu.id}.bin"
        self._sampler: native.PmSampler | None = None

    @property
    def name(self) -> str:
        """Such as ``pm.g0``."""
        return f"pm.{self.gpu.id}"

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        """Say whether the GPU's link can be sampled; a thorough trial takes a second."""
        if (refused := unusable(machine, self.gpu)) is not None:
            return refused
        if self.gpu.compute_capability in _NO_TIME_TRIGGER:
            return Availability(
                False, f"The {self.gpu.name} cannot sample its link by time.", COUNTERS_INSTEAD
            )
        cupti = find_cupti()
        if cupti is None:
            return Availability(False, *NO_CUPTI)
        if not may_profile():
            return Availability(False, *NO_PRIVILEGES)
        found = tried(lambda: native.check_cupti(str(cupti)))
        trial = partial(opened_elsewhere, self._open, self.spool)
        return tried(trial) if found.ok and thorough else found

    def prepare(self) -> None:
        """Do all of `start` that takes time, the better part of a second.

        Raises
        ------
        NotMeasuredError
            If the GPU cannot be sampled now.
        """
        self._sampler = self._sampler or self._open(self.spool)

    def start(self) -> None:
        """Begin to sample.

        Raises
        ------
        NotMeasuredError
            If the GPU cannot be sampled now.
        """
        sampler = self._sampler = self._sampler or self._open(self.spool)
        try:
            sampler.start()
        except native.NativeError as error:
            self._sampler = None
            raise refusal(error) from error

    def settle(self) -> None:
        """Wait until it is known whether samples can be fetched as fast as they come."""
        if self._sampler is not None and self.interval_ns <= _LONGEST_DOUBTED_NS:
            self._sampler.settle(_SETTLE_SECONDS)

    def stop(self) -> SourceReport:
        """End sampling, write what the hardware still holds, and give the GPU back."""
        if self._sampler is None:
            return SourceReport()
        sampler, self._sampler = self._sampler, None
        report = sampler.stop()
        if self.nvlink:
            finish(report, self._nvlink_spool, second=True)
        note = _rate_note(self.gpu, self.interval_ns, report.changes)
        return dataclasses.replace(finish(report, self.spool), rate_note=note)

    @property
    def _nvlink_spool(self) -> Path:
        return self.spool.with_name(f"pm-nvlink.{self.gpu.id}.bin")

    def _open(self, spool: Path) -> native.PmSampler:
        cupti = find_cupti()
        if cupti is None:
            raise NotMeasuredError(*NO_CUPTI)
        try:
            return self._sampler_of(spool, str(cupti), self.nvlink)
        except native.NativeError as error:
            if self.nvlink and error.args[2] == _NO_METRICS:
                self.nvlink = False
                return self._open(spool)
            raise refusal(error) from error

    def _sampler_of(self, spool: Path, cupti: str, nvlink: bool) -> native.PmSampler:
        key = ("pm", self.gpu.index, self.interval_ns)
        spools = [(str(spool), counter_header(*key, own=True, may_lengthen=True))]
        if nvlink:
            other = spool.with_name(self._nvlink_spool.name)
            spools.append((str(other), counter_header(*key, link=NVLINK, may_lengthen=True)))
        each = _BYTES_PER_NVLINK_SAMPLE if nvlink else _BYTES_PER_SAMPLE
        buffered = min(_BUFFERED_NS // self.interval_ns * each, _MOST_BYTES)
        return native.PmSampler(
            device=self.gpu.index,
            interval_ns=self.interval_ns,
            metrics=[*_METRICS, *(_NVLINK_METRICS if nvlink else ())],
            hardware_buffer_bytes=max(buffered, _FEWEST_BYTES),
            decode_period_ns=self.decode_period_ns,
            spools=spools,
            cupti=cupti,
        )


def _rate_note(gpu: Gpu, wanted_ns: int, changes: list[tuple[float, int]]) -> str | None:
    """Return which rate could not be held, and which ones were instead; None where all was well.

    Parameters
    ----------
    changes
        Since which second after the start the interval was so long, ns. Of several that lengthened
        it, or shortened it, one after the other the last one is told.
    """
    if not changes:
        return None
    lengths = [wanted_ns, *(interval for _, interval in changes)]
    longer = [later > before for before, later in pairwise(lengths)]
    turns = [
        f"every {window_text(interval)} since second {seconds:.1f}"
        for (seconds, interval), this, following in zip(
            changes, longer, [*longer[1:], None], strict=True
        )
        if this is not following
    ]
    return (
        f"{gpu.id}: {window_text(wanted_ns)} could not be sampled without loss here; sampled "
        f"{', '.join(turns)} of sampling."
    )
