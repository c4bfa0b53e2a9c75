"""Two PyTorch programs with and without a boost: one loads and stores weights, one trains.

::

    python benchmarks/boost/programs.py weights --out FILE.json [--turns 7] [--kinds boosted]
    python benchmarks/boost/programs.py training --out FILE.json [--turns 7]

``weights``: a model with layers of Llama 2 7B's shapes, 8.1 GB of bf16 in touched pageable memory,
goes to the GPU by ``.to("cuda")`` and comes back by ``.cpu()`` into memory that is new, as for a
checkpoint. Each turn runs it in processes of their own: as it is, by ``lanescope boost``, within
``with lanescope.boost():``, by ``lanescope.to_gpu`` and ``to_host`` (``functions``), with huge
pages from the C library (``GLIBC_TUNABLES=glibc.malloc.hugetlb=1``), and with memory that the
program pins itself, whose time counts. Seconds of both transfers, medians of the turns with the
least and the most, and those of the whole process. What came back is compared.

``training``: the loop ``train`` of benchmarks/watch/loops.py, whose copies are pinned. A plain
process and a boosted one take turns every 100 ms, as in benchmarks/watch/alternating.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WIDTH, INNER = 4096, 11008
KINDS = ("unboosted", "boosted", "block", "functions", "hugetlb", "pinned")
WINDOWS = 6


def weights_of(layers: int) -> list[Any]:
    """Return seven matrices for each layer, whose memory was touched."""
    import torch

    shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, INNER)] * 3
    pattern = torch.arange(WIDTH * INNER, dtype=torch.int32).to(torch.int16)
    return [
        (pattern[: rows * columns] + layer).view(torch.bfloat16).view(rows, columns)
        for layer in range(layers)
        for rows, columns in shapes
    ]


def touch(size: int) -> None:
    """Have a virtual machine get memory from its host."""
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, 4096):
        pages[at] = 1
    pages.close()


def one_program(kind: str, layers: int) -> None:
    """Load and store the weights once, and print how long both took."""
    import torch

    torch.empty(1, device="cuda")
    held = weights_of(layers)
    size = sum(one.nbytes for one in held)
    touch(size + (1 << 30))
    boosts: Any = contextlib.nullcontext()
    if kind == "block":
        import lanescope

        boosts = lanescope.boost()
    with boosts:
        print(json.dumps(transferred(held, kind) | {"bytes": size}))


def transferred(held: list[Any], kind: str) -> dict[str, Any]:
    """Load and store weights; return how long both took, and whether they are the same."""
    import torch

    import lanescope

    begun = time.perf_counter()
    if kind == "functions":
        there = [lanescope.to_gpu(one) for one in held]
    elif kind == "pinned":
        there = [one.pin_memory().to("cuda", non_blocking=True) for one in held]
    else:
        there = [one.to("cuda") for one in held]
    torch.cuda.synchronize()
    loaded = time.perf_counter()
    if kind == "functions":
        back = [lanescope.to_host(one) for one in there]
    elif kind == "pinned":
        back = [torch.empty_like(one, device="cpu", pin_memory=True) for one in there]
        for one, other in zip(back, there, strict=True):
            one.copy_(other, non_blocking=True)
        torch.cuda.synchronize()
    else:
        back = [one.cpu() for one in there]
    stored = time.perf_counter()
    equal = all(
        torch.equal(one.view(torch.int16), other.view(torch.int16))
        for one, other in zip(held, back, strict=True)
    )
    return {"load": loaded - begun, "store": stored - loaded, "equal": equal}


def run_program(kind: str, layers: int) -> dict[str, Any]:
    """Run it in a process of its own."""
    boost = [sys.executable, "-m", "lanescope", "boost", "--"] if kind == "boosted" else []
    command = [*boost, sys.executable, __file__, "weights", "--run", kind, "--layers", str(layers)]
    tunables = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} if kind == "hugetlb" else {}
    begun = time.perf_counter()
    done = subprocess.run(command, env=os.environ | tunables, capture_output=True, text=True,
                          check=False)  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{kind}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    if not found["equal"]:
        sys.exit(f"{kind}: what came back differs")
    said = done.stderr.strip().splitlines()[-2:] if kind == "boosted" else []
    return found | {"process": time.perf_counter() - begun, "said": said}


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def weights(words: argparse.Namespace) -> dict[str, Any]:
    kinds = [kind for kind in KINDS if kind == "unboosted" or kind in words.kinds]
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    for _ in range(words.turns):
        for kind in kinds:
            found[kind].append(run_program(kind, words.layers))
    for kind, runs in found.items():
        times = {name: [one[name] for one in runs] for name in ("load", "store", "process")}
        times["both"] = [one["load"] + one["store"] for one in runs]
        gains = [
            (plain["load"] + plain["store"]) / (one["load"] + one["store"])
            for plain, one in zip(found["unboosted"], runs, strict=True)
        ]
        print(f"{kind:10} " + "  ".join(f"{name} {shown(one)} s" for name, one in times.items())
              + f"  {statistics.median(gains):.2f} times as fast ({min(gains):.2f} to"
              f" {max(gains):.2f})")  # fmt: skip
    for one in found.get("boosted", [])[-1:]:
        print(f"{one['bytes']} bytes each way", *one["said"], sep="\n")
    return {"seconds": found}


def training(words: argparse.Namespace) -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "watch"))
    from alternating import Worker

    percent: list[float] = []
    for _ in range(words.restarts):
        boost = [sys.executable, "-m", "lanescope", "boost", "--"]
        workers = {"plain": Worker([]), "boosted": Worker(boost)}
        for worker in workers.values():
            worker.run("train")
        for _ in range(words.turns):
            times: dict[str, list[float]] = {name: [] for name in workers}
            for i in range(WINDOWS):
                for name in list(workers)[:: 1 if i % 2 == 0 else -1]:
                    times[name].append(workers[name].run("train")[0])
            middle = {name: statistics.median(one) for name, one in times.items()}
            percent.append((middle["boosted"] / middle["plain"] - 1) * 100)
        for worker in workers.values():
            worker.close()
    print(f"training boosted: {statistics.median(percent):+.2f} % slower"
          f" ({min(percent):+.2f} to {max(percent):+.2f})")  # fmt: skip
    return {"slower_percent": percent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("weights", "training"))
    parser.add_argument("--run", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="and unboosted")
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    if words.run:
        return one_program(words.run, words.layers)
    found = weights(words) if words.what == "weights" else training(words)
    about = {"argv": sys.argv[1:], "cpus": os.cpu_count(), "kernel": platform.release()}
    if words.out is not None:
        words.out.write_text(json.dumps({"about": about} | found, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
