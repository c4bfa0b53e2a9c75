"""What the rule makes of transfers, in turns with the same transfers never compressed.

::

    python benchmarks/compress/rule.py --paths d2h p2p --count 300 --out FILE

Two channels take turns, transfer by transfer: one whose rule decides, from no knowledge on, and
one that compresses nothing. FILE gets for each kind of data and path the seconds of every
transfer of both, in order, and how many the rule compressed; the table their sums, and how many
times as fast the rule was, with its cold start in it and in the last half. Needs PyTorch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from channel import MIB, Data, made_up, of_files, store

import lanescope

PATHS = ("d2h", "p2p")


@dataclass
class Row:
    path: str
    data: str
    bytes: int
    compressed: int = 0
    seconds: list[float] = field(default_factory=list)
    raw_seconds: list[float] = field(default_factory=list)

    def told(self) -> str:
        half = len(self.seconds) // 2
        whole = sum(self.raw_seconds) / sum(self.seconds)
        later = sum(self.raw_seconds[half:]) / sum(self.seconds[half:])
        return (
            f"{self.path:5}{self.data:16}{self.bytes / MIB:6.0f}{len(self.seconds):6}"
            f"{self.compressed:11}{whole:8.3f}{later:10.3f}"
        )


HEADER = "path data              MiB count compressed  faster last half"


def one(channel: lanescope.Channel, values: torch.Tensor, out: torch.Tensor | None) -> float:
    if out is None:
        channel.offload(values, tag="weights")
    else:
        channel.send(values, tag="weights", out=out)
    return channel.last.wait().seconds


def row_of(path: str, data: Data, size: int, count: int) -> Row:
    row = Row(path, data.name, size)
    values = data.make(size)
    out = torch.empty_like(values, device="cuda:1") if path == "p2p" else None
    target = 1 if path == "p2p" else "host"
    with (
        lanescope.Channel(0, target, compression="off") as raw,
        lanescope.Channel(0, target) as ruled,
    ):
        for _ in range(3):  # memory is pinned, the GPU awake
            one(raw, values, out)
        for _ in range(count):
            row.raw_seconds.append(one(raw, values, out))
            row.seconds.append(one(ruled, values, out))
            row.compressed += ruled.last.outcome.compressed
    return row


def rows(options: argparse.Namespace) -> Iterator[Row]:
    for data in [*made_up(), *of_files(options.fpc, options.bf16)]:
        for path in options.paths:
            for size in options.sizes:
                yield row_of(path, data, size * MIB, options.count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", nargs="+", choices=PATHS, default=["d2h"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[4, 64], help="in MiB")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--fpc", type=Path, help="folder of .f64 files, which are tiled")
    parser.add_argument("--bf16", type=Path, nargs="+", default=[], help=".npy of 2-byte values")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: list[Row] = []
    print(HEADER, flush=True)
    for row in rows(options):
        found.append(row)
        print(row.told(), flush=True)
        if options.out:
            store(options.out, found)


if __name__ == "__main__":
    main()
