"""What lanescope.torch.send and recv take of the host, between two GPUs of a node.

::

    python benchmarks/compress/send_host.py [--out FILE.json] [--sizes 64MiB 256MiB] [--turns 31]

Starts two processes with a GPU each. For each size, for ``off``, ``auto``, ``on`` and ``torch``,
PyTorch's own calls, medians over the turns in microseconds: how long the call takes in the sender
and in the receiver, until both GPUs have come to their end (``whole``), and what the channel takes
by the sender's GPU (``channel``; without channels, as with ``LANESCOPE_LINKS=0``, there is none).
What ``whole`` has beyond ``channel`` is the host's, and what it takes to know the end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from distributed import kinds, start_both

import lanescope.torch
from lanescope.units.sizes import binary_text, size_of

MODES = ("torch", "off", "auto", "on")
UNTIMED = 16  # auto learns in these


def one_turn(mode: str, tensor: torch.Tensor, rank: int) -> tuple[float, float]:
    """Return seconds of the call, and until this GPU has come to its end."""
    dist.barrier()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    if mode == "torch":
        dist.send(tensor, 1) if rank == 0 else dist.recv(tensor, 0)
    elif rank == 0:
        lanescope.torch.send(tensor, 1, compression=mode)
    else:
        lanescope.torch.recv(tensor, 0)
    called = time.perf_counter()
    torch.cuda.synchronize()
    return called - begun, time.perf_counter() - begun


def channel_seconds(turns: int) -> list[float]:
    """Return what the last transfers took by the sender's GPU; empty without a channel."""
    last = lanescope.torch.transfers()[-turns:]
    return [one.outcome.seconds for one in last if one.outcome is not None]


def measure(mode: str, size: int, rank: int, turns: int) -> dict[str, Any]:
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(1)
    # A little shorter for each mode: what a program sends again and again is of a kind.
    tensor = kinds(device)["N(0, 0.02) bf16"](size)[16 * MODES.index(mode) :]
    taken = [one_turn(mode, tensor, rank) for _ in range(UNTIMED + turns)][UNTIMED:]
    seconds: dict[str, list[float]] = {
        "call": [one for one, _ in taken],
        "whole": [one for _, one in taken],
        "channel": channel_seconds(turns) if rank == 0 and mode != "torch" else [],
    }
    both: list[Any] = [None, None]
    dist.all_gather_object(both, seconds)
    found = {
        "send": both[0]["call"],
        "recv": both[1]["call"],
        "whole": [max(pair) for pair in zip(both[0]["whole"], both[1]["whole"], strict=True)],
        "channel": both[0]["channel"],
    }
    return {"mode": mode, "bytes": size, "seconds": found}


def show(row: dict[str, Any]) -> None:
    """Print the medians of one mode and size."""
    parts = [
        f"{name} {statistics.median(times) * 1e6:6.0f}"
        for name, times in row["seconds"].items()
        if times
    ]
    print(f"{binary_text(row['bytes']):>8} {row['mode']:5}  {'   '.join(parts)} us", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["64MiB", "256MiB"])
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if "RANK" not in os.environ:
        if torch.cuda.device_count() < 2:
            print("this needs two GPUs, and there are fewer")
            return 2
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        return start_both()
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    rows = []
    for size in map(size_of, given.sizes):
        for mode in MODES:
            rows.append(measure(mode, size, rank, given.turns))
            if rank == 0:
                show(rows[-1])
    if rank == 0 and given.out is not None:
        about = {"torch": torch.__version__, "links": os.environ.get("LANESCOPE_LINKS", "1")}
        given.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
