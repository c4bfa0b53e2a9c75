"""Arrays from the GPU of one process to that of another, as they are and compressed, in turns.

::

    python benchmarks/compress/processes.py --out FILE.json [--gpus 0 1] [--turns 9]

``off``, ``auto`` and ``on`` are channels between processes by their compression. A second process
receives. Seconds of a transfer are those of the sender's GPU, from its first step until the
receiver has the values: medians of the turns, and the range of the gain over ``off``. NCCL is
measured by ``distributed.py --backend nccl``, channels within a process by ``channel.py``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from distributed import kinds

from lanescope.compression.peer import PeerReceiver, PeerSender
from lanescope.units.sizes import bandwidth_gbs, binary_text, size_of

MODES = ("off", "auto", "on")


def receive(folder: Path, gpu: int, turns: int, learns: int, sizes: list[int]) -> None:
    """Take all arrays that `measure` sends."""
    torch.cuda.set_device(gpu)
    channels = {mode: PeerReceiver(gpu, folder / mode, patience_seconds=120) for mode in MODES}
    for _ in kinds(torch.device("cuda", gpu)):
        for _ in sizes:
            for mode in order(turns, learns):
                channels[mode].receive()
    for channel in channels.values():
        channel.close()


def order(turns: int, learns: int) -> list[str]:
    """Return the modes of all transfers of an array, those before the turns first."""
    before = ["off", "on", *["auto"] * learns]
    return before + [mode for turn in range(turns) for mode in MODES[:: 1 if turn % 2 == 0 else -1]]


def measure(
    folder: Path, gpu: int, turns: int, learns: int, sizes: list[int]
) -> list[dict[str, Any]]:
    torch.cuda.set_device(gpu)
    channels = {
        mode: PeerSender(gpu, folder / mode, compression=mode, patience_seconds=120)
        for mode in MODES
    }
    found = []
    for name, made in kinds(torch.device("cuda", gpu)).items():
        for size in sizes:
            values = made(size)
            taken: dict[str, list[float]] = {mode: [] for mode in MODES}
            for mode in order(turns, learns):
                channels[mode].send(values, tag=name)
                last = channels[mode].last
                assert last is not None
                taken[mode].append(last.wait(60).seconds)
            taken = {mode: times[-turns:] for mode, times in taken.items()}
            found.append(row(name, size, taken, channels))
    for channel in channels.values():
        channel.close()
    return found


def row(
    name: str, size: int, taken: dict[str, list[float]], channels: dict[str, PeerSender]
) -> dict[str, Any]:
    """Return what was measured of one kind of values and size, and print it."""
    raw = statistics.median(taken["off"])
    one: dict[str, Any] = {"values": name, "bytes": size, "seconds": taken}
    line = f"{name:18} {binary_text(size):>8}  off {bandwidth_gbs(size, raw):6.1f} GB/s"
    for mode in MODES[1:]:
        gains = [a / b for a, b in zip(taken["off"], taken[mode], strict=True)]
        one[mode] = raw / statistics.median(taken[mode])
        line += f"   {mode} {one[mode]:5.2f} ({min(gains):.2f} to {max(gains):.2f})"
    last = channels["on"].last
    if last is not None and last.outcome is not None:
        one["codec"], one["ratio"] = last.decision.codec, size / last.outcome.wire_bytes
        line += f"   {one['codec']} {one['ratio']:.2f}"
    print(line, flush=True)
    return one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs=2, default=(0, torch.cuda.device_count() - 1))
    parser.add_argument("--sizes", nargs="+", default=["64MiB", "256MiB", "1GiB"])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--learns", type=int, default=12)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--receive-in", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = [size_of(size) for size in given.sizes]
    if given.receive_in is not None:
        receive(given.receive_in, given.gpus[1], given.turns, given.learns, sizes)
        return
    with tempfile.TemporaryDirectory() as folder:
        other = subprocess.Popen([sys.executable, *sys.argv, "--receive-in", folder])
        rows = measure(Path(folder), given.gpus[0], given.turns, given.learns, sizes)
        other.wait()
    if given.out is not None:
        about = {"gpus": given.gpus, "name": torch.cuda.get_device_name(given.gpus[0])}
        given.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
