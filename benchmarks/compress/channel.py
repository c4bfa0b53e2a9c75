"""Sends arrays through `lanescope.Channel` compressed and raw, in turns, on a machine with GPUs.

::

    python benchmarks/compress/channel.py --paths d2h h2d p2p --sms 8 16 48 --out FILE
    python benchmarks/compress/channel.py --fpc FOLDER --bf16 WEIGHTS.npy --sizes 256 --out FILE

Paths: ``d2h`` and ``h2d`` between GPU 0 and pinned memory of the host, ``p2p`` from GPU 0 to
GPU 1, ``g2h2g`` the same by pinned memory of the host. Times are those between events on the
devices, from the first step of a transfer to its last; the raw transfer is a plain copy of the copy
engine, and over the host copies of pieces that overlap. FILE gets for each row the seconds of every
turn of both, and what crossed the link; the table the medians, with the spread of each ((most -
least) / median). Effective bandwidth: bytes of the array over the time. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lanescope
from lanescope.compression.deciding import Decision
from lanescope.compression.stream import Codec
from lanescope.units.sizes import bandwidth_gbs

MIB = 1 << 20
TO_PEER = {"p2p": "peer", "g2h2g": "host"}
PATHS = ("d2h", "h2d", "p2p", "g2h2g")
#: Before the turns that count: memory is pinned, and kernels are loaded.
WARM_UP = 2


class Turns:
    """Decides what the turn is: compressed or raw."""

    compress = False

    def decide(self, transfer: Any) -> Decision:
        return Decision(self.compress, "auto", 1, None, None, "a turn of the benchmark")

    def learn(self, transfer: Any, decision: Decision, outcome: Any) -> None:
        """Nothing to learn."""


@dataclass
class Row:
    path: str
    data: str
    codec: str
    bytes: int
    sms: int
    slab_bytes: int
    slots: int
    restore_by: str
    wire_bytes: int = 0
    raw_seconds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def told(self) -> str:
        raw, coded = statistics.median(self.raw_seconds), statistics.median(self.seconds)
        return (
            f"{self.path:5}{self.data:16}{self.codec:10}{self.bytes / MIB:7.0f}{self.sms:5}"
            f"{bandwidth_gbs(self.bytes, raw):9.1f}{_spread(self.raw_seconds):6.1%}"
            f"{bandwidth_gbs(self.bytes, coded):9.1f}{_spread(self.seconds):6.1%}"
            f"{raw / coded:8.3f}{self.bytes / max(self.wire_bytes, 1):8.2f}"
        )


HEADER = "path data            codec         MiB  sms raw GB/s     ±     GB/s     ±  faster   ratio"


def _spread(values: list[float]) -> float:
    return (max(values) - min(values)) / statistics.median(values)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.uint8).to(other.device), other.view(torch.uint8))


@dataclass(frozen=True)
class Data:
    """`make(bytes)` returns values on GPU 0."""

    name: str
    codec: str
    make: Callable[[int], torch.Tensor]


def _tiled(values: torch.Tensor, size: int) -> torch.Tensor:
    count = size // values.element_size()
    return values.repeat(-(-count // values.numel()))[:count].cuda(0)


def _random(size: int) -> torch.Tensor:
    words = torch.randint(-(2**63), 2**63 - 1, (size // 8,), dtype=torch.int64, device="cuda:0")
    return words.view(torch.float32)


def _smooth(size: int) -> torch.Tensor:
    step = torch.arange(size // 4, dtype=torch.float64, device="cuda:0") * 1e-3
    return (step.sin() * 100).to(torch.float32)


def made_up() -> list[Data]:
    return [
        Data(
            "N(0,1) bf16",
            Codec.EXPONENT,
            lambda size: torch.randn(size // 2, device="cuda:0").to(torch.bfloat16),
        ),
        Data(
            "ReLU bf16",
            Codec.ZVC,
            lambda size: torch.randn(size // 2, device="cuda:0").relu().to(torch.bfloat16),
        ),
        Data("smooth fp32", Codec.DELTA, _smooth),
        Data("constant fp32", Codec.DELTA, lambda size: torch.ones(size // 4, device="cuda:0")),
        Data("random fp32", Codec.DELTA, _random),
    ]


def of_files(fpc: Path | None, bf16: list[Path]) -> Iterator[Data]:
    for path in sorted(fpc.glob("*.f64")) if fpc else []:
        values = torch.from_numpy(np.fromfile(path, np.float64))
        yield Data(path.stem, "auto", lambda size, one=values: _tiled(one, size))
    for path in bf16:
        words = torch.from_numpy(np.load(path).reshape(-1).view(np.int16).copy())
        values = words.view(torch.bfloat16)
        yield Data(path.stem, Codec.EXPONENT, lambda size, one=values: _tiled(one, size))


def timed(
    channel: lanescope.Channel, turns: Turns, path: str, row: Row, repeats: int, values: Any
) -> None:
    out = torch.empty_like(values, device="cuda:1" if path in TO_PEER else "cuda:0")
    for turn in range(WARM_UP + repeats):
        for turns.compress in (False, True):
            if path in TO_PEER:
                channel.send(values, out=out)
            else:
                parcel = channel.offload(values)
                if path == "h2d":
                    channel.last.wait()
                    channel.restore(parcel, out=out)
            outcome = channel.last.wait()
            row.codec = channel.last.decision.codec if turns.compress else row.codec
            if turns.compress:
                row.wire_bytes = outcome.wire_bytes
            if turn >= WARM_UP:
                (row.seconds if turns.compress else row.raw_seconds).append(outcome.seconds)
            if turn == 0 and path != "d2h" and not _same(out, values):
                raise SystemExit(f"{row.path} {row.data}: the array came out different")


def rows_of(options: argparse.Namespace, data: Data) -> Iterator[Row]:
    for path in options.paths:
        for sms in options.sms:
            turns = Turns()
            with lanescope.Channel(
                0,
                1 if path in TO_PEER else "host",
                compression=turns,
                codec=data.codec,
                via=TO_PEER.get(path, "auto"),
                sms=sms,
                slab_bytes=options.slab_mib and options.slab_mib * MIB,
                slots=options.slots,
                restore_by=options.restore_by,
            ) as channel:
                for size in options.sizes:
                    values = data.make(size * MIB)
                    shape = channel.shape
                    row = Row(path, data.name, data.codec, size * MIB, shape.sms,
                              shape.slab_bytes, shape.slots,
                              options.restore_by)  # fmt: skip
                    timed(channel, turns, path, row, options.turns, values)
                    yield row


def store(path: Path, rows: list[Any]) -> None:
    """Write the rows that there are, should the rest be cut off."""
    told = {
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "lanescope": lanescope.__version__,
        "rows": [asdict(one) for one in rows],
    }
    path.write_text(json.dumps(told, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", nargs="+", choices=PATHS, default=["d2h", "h2d"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 4, 16, 64, 256, 1024],
                        help="in MiB")  # fmt: skip
    parser.add_argument(
        "--sms", nargs="+", type=int, default=[None], help="0: all; default: the channel's own"
    )
    parser.add_argument("--slab-mib", type=int, help="default: the channel's own, as with slots")
    parser.add_argument("--slots", type=int)
    parser.add_argument("--restore-by", choices=["staged", "mapped"], default="staged")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", nargs="+", help="names of data to take, or what they begin with")
    parser.add_argument("--fpc", type=Path, help="folder of .f64 files, which are tiled")
    parser.add_argument("--bf16", type=Path, nargs="+", default=[], help=".npy of 2-byte values")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    every = [*made_up(), *of_files(options.fpc, options.bf16)]
    chosen = [one for one in every if not options.only or one.name.startswith(tuple(options.only))]
    rows: list[Row] = []
    print(HEADER, flush=True)
    for data in chosen:
        for row in rows_of(options, data):
            rows.append(row)
            print(row.told(), flush=True)
            if options.out:
                store(options.out, rows)


if __name__ == "__main__":
    main()
