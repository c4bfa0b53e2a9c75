"""PyTorch loops to be watched, each of which takes its time in another place.

::

    python benchmarks/watch/loops.py train|launch|tiny|loader [--seconds S] [--times FILE.json]

``train``: a pinned batch of 32 MiB to the GPU, about 80 kernels, 4 bytes back, which the thread
waits for. ``launch``: hundreds of kernels that are shorter than their launches. ``tiny``: 64 copies
of 1 KiB and a wait. ``loader``: a DataLoader with two workers and a thread that pins.

Prints, as JSON, when the loop began and ended (``steps``, as ``lanescope.examples`` does) and the
quartiles of an iteration's time in seconds (``iteration_s``). FILE gets the end of each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import torch

GPU = torch.device("cuda:0")
MIB = 1 << 20
WARM_UP = 20


def train() -> Callable[[], None]:
    """Train nine layers on batches of 8192 rows of 1024 floats, in TF32."""
    torch.set_float32_matmul_precision("high")
    widths = [1024] * 9 + [1000]
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).to(GPU)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batches = [torch.randn(8192, 1024).pin_memory() for _ in range(4)]
    labels = torch.randint(0, 1000, (8192,), device=GPU)
    turn = 0

    def step() -> None:
        nonlocal turn
        turn += 1
        batch = batches[turn % 4].to(GPU, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def launch() -> Callable[[], None]:
    """Launch 400 kernels of 1 KiB; a copy in and one back."""
    source = torch.ones(256).pin_memory()
    x = torch.ones(256, device=GPU)

    def step() -> None:
        x.copy_(source, non_blocking=True)
        for _ in range(400):
            x.mul_(1.0001)
        x[0].item()

    return step


def tiny() -> Callable[[], None]:
    """Copy 64 times 1 KiB."""
    sources = [torch.ones(256).pin_memory() for _ in range(64)]
    targets = [torch.empty(256, device=GPU) for _ in range(64)]

    def step() -> None:
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    return step


class Images(torch.utils.data.Dataset):  # type: ignore[misc]
    """Made-up images of 3 x 224 x 224 bytes, without end."""

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3, 224, 224), index % 251, dtype=torch.uint8)


def in_order() -> Iterator[int]:
    """Count; a sampler of 2^40 numbers is not made in advance."""
    index = 0
    while True:
        yield index
        index += 1


def loader() -> Callable[[], None]:
    """Convolve batches of 64 images that two processes make."""
    batches = iter(
        torch.utils.data.DataLoader(
            Images(), batch_size=64, sampler=in_order(), num_workers=2, pin_memory=True
        )
    )
    net = torch.nn.Conv2d(3, 64, 7).to(GPU)

    def step() -> None:
        batch = next(batches).to(GPU, non_blocking=True)
        net(batch.float()).mean().item()

    return step


LOOPS = {"train": train, "launch": launch, "tiny": tiny, "loader": loader}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--times", type=Path)
    arguments = parser.parse_args()
    step = LOOPS[arguments.loop]()
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    times = [time.time_ns()]
    end = times[0] + arguments.seconds * 1e9
    while times[-1] < end:
        step()
        times.append(time.time_ns())
    if arguments.times is not None:
        arguments.times.write_text(json.dumps(times))
    taken = [(b - a) * 1e-9 for a, b in pairwise(times)]
    steps = [{"name": arguments.loop, "begin_ns": times[0], "end_ns": times[-1]}]
    print(
        json.dumps(
            {"steps": steps, "iterations": len(taken), "iteration_s": statistics.quantiles(taken)}
        )
    )


if __name__ == "__main__":
    main()
