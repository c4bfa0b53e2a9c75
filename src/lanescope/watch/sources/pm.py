"""The hardware's own samples of the bytes on a GPU's link, through CUPTI."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from lanescope._core import native
from lanescope.errors import NotMeasuredError
from lanescope.machine import Gpu, Machine
from lanescope.watch.counter_spool import counter_header
from lanescope.watch.cupti import find_cupti
from lanescope.watch.sources.base import Availability, SourceReport
from lanescope.watch.sources.common import finish, tried, unusable
from lanescope.watch.sources.privileges import may_profile
from lanescope.watch.sources.refusals import COUNTERS_INSTEAD, NO_CUPTI, NO_PRIVILEGES, refusal

#: 10 kHz.
DEFAULT_INTERVAL_NS = 100_000
#: Each fetching costs about 1 ms of processor time, and a kill loses at most this.
_DECODE_PERIOD_NS = 50_000_000
#: What GPUs received and sent over PCIe, protocol included.
_METRICS = ("pcie__read_bytes.sum", "pcie__write_bytes.sum")
#: A sample of these metrics takes 64 bytes of the hardware's buffer; it holds two seconds.
_BYTES_PER_SAMPLE = 64
_BUFFERED_NS = 2_000_000_000
_FEWEST_BYTES = 8 << 20
#: The architectures that cannot sample by time: Turing and GA100.
_NO_TIME_TRIGGER = {(7, 5), (8, 0)}


class PmSource:
    """Samples one GPU's link in hardware.

    Parameters
    ----------
    gpu
        What to sample.
    folder
        Where its spool goes: ``pm.g0.bin`` for GPU 0.
    interval_ns
        From sample to sample.
    """

    def __init__(self, gpu: Gpu, folder: Path, *, interval_ns: int = DEFAULT_INTERVAL_NS) -> None:
        self.gpu = gpu
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
        return tried(self._try) if found.ok and thorough else found

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

    def stop(self) -> SourceReport:
        """End sampling, write what the hardware still holds, and give the GPU back."""
        if self._sampler is None:
            return SourceReport()
        sampler, self._sampler = self._sampler, None
        return finish(sampler.stop(), self.spool)

    def environment(self) -> Mapping[str, str]:
        """Return nothing: the program need not know."""
        return {}

    def _try(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self._open(Path(folder) / self.spool.name)

    def _open(self, spool: Path) -> native.PmSampler:
        cupti = find_cupti()
        if cupti is None:
            raise NotMeasuredError(*NO_CUPTI)
        buffered = _BUFFERED_NS // self.interval_ns * _BYTES_PER_SAMPLE
        try:
            return native.PmSampler(
                device=self.gpu.index,
                interval_ns=self.interval_ns,
                metrics=list(_METRICS),
                hardware_buffer_bytes=max(buffered, _FEWEST_BYTES),
                decode_period_ns=_DECODE_PERIOD_NS,
                path=str(spool),
                header=counter_header("pm", self.gpu.index, self.interval_ns),
                cupti=str(cupti),
            )
        except native.NativeError as error:
            raise refusal(error) from error
