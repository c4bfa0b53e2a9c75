"""Tensors between two processes by PyTorch's send and recv, and by lanescope's, in turns.

::

    python benchmarks/compress/distributed.py --out FILE.json [--backend gloo|nccl] [--turns 9]
    python benchmarks/compress/distributed.py --out FILE.json --backend nccl --broadcast
    torchrun --nproc-per-node 2 benchmarks/compress/distributed.py --out FILE.json
    benchmarks/compress/slow_link.sh 1gbit python benchmarks/compress/distributed.py --out FILE.json

By itself it starts two processes, which meet on loopback; over NCCL each has a GPU. ``torch`` is
``torch.distributed``, the others ``lanescope.torch`` by their compression; ``auto`` has sent
``--learns`` tensors of each kind before. Times are of the sender, until a word has come back that
the receiver sends when it has the values: medians of the turns, and the range. ``--broadcast`` does
the same by ``broadcast``. With ``LANESCOPE_LINKS=0`` GPUs of a node use NCCL alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import lanescope.torch
from lanescope.units.sizes import bandwidth_gbs, binary_text, size_of

MODES = ("torch", "off", "auto", "on")


def kinds(device: torch.device) -> dict[str, Any]:
    """Return functions that make so many bytes of values."""

    def normal(size: int) -> torch.Tensor:
        return torch.randn(size // 2, device=device).mul_(0.02).to(torch.bfloat16)

    def smooth(size: int) -> torch.Tensor:
        steps = torch.arange(size // 4, device=device, dtype=torch.float32)
        return torch.sin(steps / 700).mul_(20) + torch.sin(steps / 31)

    def decimals(size: int) -> torch.Tensor:
        # Not "/ 10": by a number a GPU multiplies by 0.1, and a third are no decimals then.
        ten = torch.full((), 10.0, dtype=torch.float64, device=device)
        return torch.randint(-400, 400, (size // 8,), device=device).to(torch.float64) / ten

    def random(size: int) -> torch.Tensor:
        return torch.randint(-(1 << 62), 1 << 62, (size // 8,), device=device)

    return {
        "N(0, 0.02) bf16": normal,
        "ReLU of it": lambda size: normal(size).relu_(),
        "smooth fp32": smooth,
        "one decimal fp64": decimals,
        "random int64": random,
    }


def spread(mode: str, tensor: torch.Tensor, rank: int, tag: int) -> None:
    if mode == "torch":
        dist.broadcast(tensor, 0)
    else:
        lanescope.torch.broadcast(tensor, 0, compression=mode)


def exchange(mode: str, tensor: torch.Tensor, rank: int, tag: int) -> None:
    if mode == "torch":
        dist.send(tensor, 1, tag=tag) if rank == 0 else dist.recv(tensor, 0, tag=tag)
    elif rank == 0:
        lanescope.torch.send(tensor, 1, tag=tag, compression=mode)
    else:
        lanescope.torch.recv(tensor, 0, tag=tag)


#: How a tensor goes from one to the other: by a function of mode, tensor, rank and tag.
Carry = Callable[[str, torch.Tensor, int, int], None]


def timed(
    carry: Carry, mode: str, tensor: torch.Tensor, rank: int, tag: int, word: torch.Tensor
) -> float:
    """Return seconds until the receiver has the values."""
    dist.barrier()
    settle(tensor)
    begun = time.perf_counter()
    carry(mode, tensor, rank, tag)
    settle(tensor)
    dist.recv(word, 1) if rank == 0 else dist.send(word, 0)
    settle(tensor)
    return time.perf_counter() - begun


def settle(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def measure(rank: int, device: torch.device, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    word = torch.zeros(1, device=device)
    carry = spread if arguments.broadcast else exchange
    found = []
    for tag, (name, made) in enumerate(kinds(device).items(), 1):
        for size in map(size_of, arguments.sizes):
            torch.manual_seed(1)
            values = made(size)
            room = values if rank == 0 else torch.zeros_like(values)
            # A little shorter for each mode: what a program sends again and again is of a kind.
            parts = {mode: slice(values.numel() - 16 * i) for i, mode in enumerate(MODES)}
            for mode in MODES:
                tensor = room[parts[mode]]
                for _ in range(1 if mode in ("torch", "on") else arguments.learns):
                    timed(carry, mode, tensor, rank, tag, word)
                equal = torch.equal(tensor, values[parts[mode]])
                assert equal, f"{mode} brought other values"
            taken: dict[str, list[float]] = {mode: [] for mode in MODES}
            for turn in range(arguments.turns):
                for mode in MODES[:: 1 if turn % 2 == 0 else -1]:
                    tensor = room[parts[mode]]
                    taken[mode].append(timed(carry, mode, tensor, rank, tag, word))
            found.append(row(name, size, taken, rank, arguments.learns, arguments.turns))
    return found


def row(
    name: str, size: int, taken: dict[str, list[float]], rank: int, learns: int, turns: int
) -> dict[str, Any]:
    """Return what was measured of one kind of values and size, and print it."""
    raw = statistics.median(taken["torch"])
    one: dict[str, Any] = {"values": name, "bytes": size, "seconds": taken}
    line = f"{name:18} {binary_text(size):>8}  torch {bandwidth_gbs(size, raw):6.3f} GB/s"
    for mode in MODES[1:]:
        gains = [a / b for a, b in zip(taken["torch"], taken[mode], strict=True)]
        one[mode] = raw / statistics.median(taken[mode])
        line += f"   {mode} {one[mode]:5.2f} ({min(gains):.2f} to {max(gains):.2f})"
    if rank == 0:
        mine = 1 + 2 * learns + (len(MODES) - 1) * turns
        sent = lanescope.torch.transfers()[-mine:]  # of lanescope.torch, of these values and size
        last = [one for one in sent if "compression is" not in one.decision.reason][-1]
        on = [one for one in sent if one.decision.reason == "compression is on" and one.wire_bytes]
        one["auto_compressed"] = last.decision.compress
        one["ratio"] = size / on[-1].wire_bytes if on else None
        one["codec"] = str(on[-1].decision.codec) if on else None
        said = f"{last.decision.codec}" if last.decision.compress else "sends as it is"
        ratio = f", on {one['codec']} {one['ratio']:.2f}" if on else ""
        print(f"{line}   auto {said}{ratio}", flush=True)
    return one


def arguments_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    parser.add_argument("--broadcast", action="store_true")
    parser.add_argument("--sizes", nargs="+", default=["4MiB", "32MiB"])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--learns", type=int, default=16)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def start_both() -> int:
    """Start two ranks of this program, and return how they ended."""
    own = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(own.port), "WORLD_SIZE": "2"}
    place |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}  # the store is there already
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    return max(abs(one.wait()) for one in ranks)


def main() -> int:
    arguments = arguments_given()
    if "RANK" not in os.environ:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        return start_both()
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    rank = int(os.environ["RANK"])
    device = torch.device("cpu")
    if arguments.backend == "nccl":
        if torch.cuda.device_count() < 2 and int(os.environ.get("LOCAL_WORLD_SIZE", "2")) > 1:
            print("NCCL needs a GPU for each process, and there are fewer than two")
            return 2
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
        torch.cuda.set_device(device)
    dist.init_process_group(arguments.backend)
    found = measure(rank, device, arguments)
    if rank == 0 and arguments.out is not None:
        about = {
            "backend": arguments.backend,
            "broadcast": arguments.broadcast,
            "links": os.environ.get("LANESCOPE_LINKS", "1"),
            "torch": torch.__version__,
            "rows": found,
        }
        arguments.out.write_text(json.dumps(about, indent=1) + "\n")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
