"""Probes as the core writes them: a line of JSON, then records of 24 bytes.

A record holds the begin of a round's short copy (u64, ns since 1970), how long that and the
long copy after it took (u32 each, ns; all ones is that or longer), the direction (u32: 0 to the
GPU, 1 from it), and four bytes that are 0. Next to a spool lies what the probe said at its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lanescope.codec.fields import PositiveInt
from lanescope.codec.files import read_bytes
from lanescope.errors import InputError
from lanescope.trace.codes import LATEST_NS
from lanescope.trace.probe import PROBE_DIRECTIONS, Probe
from lanescope.trace.spool_header import Damage, header_of, read_sidecar

SOURCE = "probe"
VERSION = 1

_RECORD = np.dtype(
    [
        ("begin_ns", "<u8"),
        ("delay_ns", "<u4"),
        ("copy_ns", "<u4"),
        ("direction", "<u4"),
        ("reserved", "<u4"),
    ]
)


@dataclass(frozen=True, slots=True)
class ProbeHeader:
    """The first line of a spool; see `probe_header`."""

    source: str
    version: int
    gpu: int
    chunk_bytes: PositiveInt
    period_ns: int


def probe_header(gpu: int, chunk_bytes: int, period_ns: int, most_share: float) -> str:
    """Return the first line of a spool; see `lanescope.trace.probe.Probe` for its values."""
    header = {"source": SOURCE, "version": VERSION, "gpu": gpu, "chunk_bytes": chunk_bytes}
    return json.dumps({**header, "period_ns": period_ns, "most_share": most_share}) + "\n"


def read_probe(path: Path) -> Probe:
    """Read the spool of a probe, whole or cut off.

    Raises
    ------
    InputError
        If there is no such file, or it is not a spool of this version, or damaged.
    """
    content = read_bytes(path, inner=2)
    header, begin = header_of(path, content, ProbeHeader, VERSION, SOURCE)
    records = np.frombuffer(
        content, _RECORD, count=(len(content) - begin) // _RECORD.itemsize, offset=begin
    )
    if np.any(records["direction"] >= len(PROBE_DIRECTIONS)) or np.any(
        records["begin_ns"] > LATEST_NS
    ):
        raise InputError(
            f"{path} is damaged: it holds a direction or a time that there is not; name another run"
        )
    return Probe(
        gpu=header.gpu,
        chunk_bytes=header.chunk_bytes,
        period_ns=header.period_ns,
        begin_ns=records["begin_ns"].astype(np.int64),
        delay_ns=records["delay_ns"].astype(np.int64),
        copy_ns=records["copy_ns"].astype(np.int64),
        direction=records["direction"].astype(np.int64),
        cpu_seconds=read_sidecar(path).cpu_seconds,
    )


def read_all_probes(folder: Path, damage: Damage | None = None) -> tuple[Probe, ...]:
    """Read every spool of a probe in a folder, by GPU; `damage` as of `read_all_counters`.

    One whose first line is cut off, as nothing had been probed yet, is left out.
    """
    damage = damage or Damage(refuses=True)
    found = []
    for path in sorted(folder.glob(f"{SOURCE}.g*.bin")):
        with damage.leaving_out(path):
            found.append(read_probe(path))
    return tuple(sorted(found, key=lambda probe: probe.gpu))
