"""Small copies over a GPU's link, timed again and again: works where nothing counts.

The link is shared by whoever uses it: while the program copies, the probe's own copies take
longer, and while the GPU is busy, their delay grows. It is also the only source that uses
what it watches, so that it costs the program something.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.machine import Gpu, Machine
from lanescope.trace.probe import probe_header
from lanescope.watching.sources import Availability, SourceReport
from lanescope.watching.sources.common import (
    OutsideSource,
    opened_elsewhere,
    refusal,
    report_of,
    tried,
    unusable,
    write_sidecar,
)

#: 200 KiB, as in the thesis, whose figures call it 200 KB: more than the 128 KiB from which
#: on a copy fills a link.
DEFAULT_CHUNK_BYTES = 200 << 10
MOST_CHUNK_BYTES = 1 << 30
FEWEST_CHUNK_BYTES = 4
#: From round to round when gentle; and at most so much of the link's time, which lengthens the
#: period where chunks are large or links are slow.
#: On an H200 a round every 10 ms cost a program that computes 3.7 %.
GENTLE_PERIOD_NS = 50_000_000
GENTLE_SHARE = 0.01


def require_chunk(chunk_bytes: int) -> None:
    """Raise `InputError` where a probe cannot copy so many bytes at once."""
    if not FEWEST_CHUNK_BYTES <= chunk_bytes <= MOST_CHUNK_BYTES:
        raise InputError(f"a chunk of {chunk_bytes} B cannot be probed with; give 4 B to 1 GiB")


class ProbeSource(OutsideSource):
    """Probes the link of one GPU.

    Parameters
    ----------
    folder
        Where the spool goes: ``probe.g0.bin`` for GPU 0.
    chunk_bytes
        Of each long copy, 4 B to 1 GiB.
    gentle
        Whether to probe rarely, instead of filling the link.

    Raises
    ------
    InputError
        If there can be no such chunk.
    """

    def __init__(
        self,
        gpu: Gpu,
        folder: Path,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        gentle: bool = False,
    ) -> None:
        require_chunk(chunk_bytes)
        self.gpu = gpu
        self.chunk_bytes = chunk_bytes
        self.gentle = gentle
        self.period_ns = GENTLE_PERIOD_NS if gentle else 0
        self.most_share = GENTLE_SHARE if gentle else 1.0
        self.spool = folder / f"probe.{gpu.id}.bin"
        self._probe: native.LinkProbe | None = None

    @property
    def name(self) -> str:
        """Such as ``probe.g0``."""
        return f"probe.{self.gpu.id}"

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        """Say whether the link can be probed; a thorough trial begins CUDA and copies."""
        if (refused := unusable(machine, self.gpu)) is not None:
            return refused
        shared = tried(lambda: native.require_shared_gpu(self.gpu.index))
        trial = partial(opened_elsewhere, self._open, self.spool)
        return tried(trial) if shared.ok and thorough else shared

    def prepare(self) -> None:
        """Begin CUDA and take memory, which takes a part of a second.

        Raises
        ------
        NotMeasuredError
            If CUDA cannot use the GPU beside the program.
        """
        try:
            self._probe = self._probe or self._open(self.spool)
        except native.NativeError as error:
            raise refusal(error) from error

    def start(self) -> None:
        """Begin to probe; raises as `prepare` does."""
        self.prepare()
        assert self._probe is not None, "it was prepared"
        try:
            self._probe.start()
        except native.NativeError as error:
            self._probe = None
            raise refusal(error) from error

    def stop(self) -> SourceReport:
        """End at once, and write next to the spool how it went."""
        if self._probe is None:
            return SourceReport()
        probe, self._probe = self._probe, None
        report = probe.stop()
        told = ("records", "rounds", "cpu_seconds", "wall_seconds", "errors")
        write_sidecar(self.spool, {name: getattr(report, name) for name in told})
        return report_of(report)

    def _open(self, spool: Path) -> native.LinkProbe:
        header = probe_header(self.gpu.index, self.chunk_bytes, self.period_ns, self.most_share)
        return native.LinkProbe(
            device=self.gpu.index,
            chunk_bytes=self.chunk_bytes,
            period_ns=self.period_ns,
            most_share=self.most_share,
            path=str(spool),
            header=header,
        )
