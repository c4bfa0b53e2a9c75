"""PyTorch loops to be watched, each of which takes its time in another place.

::

    python benchmarks/watch/loops.py train launch tiny loader [--seconds S]

``train``: a pinned batch of 32 MiB to the GPU, about 80 kernels, 4 bytes back, which the thread
waits for. ``launch``: hundreds of kernels that are shorter than their launches. ``tiny``: 64 copies
of 1 KiB and a wait. ``loader``: a DataLoader with two workers and a thread that pins. ``pair``:
``train`` on two GPUs at once, which then exchange 32 MiB over NVLink in each direction;
``wide-pair``: the same with layers of 4096, so that GPUs, not launches, are what takes the time.
``memory-pair``: with layers of 8192 and batches of 128, so that the GPUs' memory is what takes the
time, and they stay below their power limit. ``zeros-pair``: ``wide-pair`` on arrays of zeros: the
same kernels with far less power. ``broad-pair``: layers of 16384 and batches of 512, so that copies
from the host, whose speed changes most, take little of the time; ``broad``: that on one GPU.

Prints, as JSON, for each loop how many iterations there were and the quartiles of their times in
seconds (``loops``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import torch

GPU = torch.device("cuda:0")
MIB = 1 << 20
WARM_UP = 20


def training(
    gpu: torch.device, width: int = 1024, rows: int = 8192, scale: float = 1
) -> Callable[[], torch.Tensor]:
    """Return a step that trains on a GPU and returns the loss, which is not waited for.

    Nine layers, batches of `rows` rows of `width` floats, in TF32. Weights and batches are
    multiplied by `scale`.
    """
    torch.set_float32_matmul_precision("high")
    widths = [width] * 9 + [1000]
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [torch.nn.Linear(inputs, outputs, device=gpu), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batches = [(torch.randn(rows, width) * scale).pin_memory() for _ in range(4)]
    labels = torch.randint(0, 1000, (rows,), device=gpu)
    turn = 0

    def step() -> torch.Tensor:
        nonlocal turn
        turn += 1
        batch = batches[turn % 4].to(gpu, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def train(width: int = 1024, rows: int = 8192) -> Callable[[], None]:
    """Train, and read each loss."""
    begun = training(GPU, width, rows)

    def step() -> None:
        begun().item()

    return step


def pair(width: int = 1024, rows: int = 8192, scale: float = 1) -> Callable[[], None]:
    """Train on two GPUs, and exchange 32 MiB."""
    gpus = [torch.device(f"cuda:{i}") for i in range(2)]
    trained = [training(gpu, width, rows, scale) for gpu in gpus]
    own, other = ([torch.ones(8 << 20, device=gpu) for gpu in gpus] for _ in range(2))

    def step() -> None:
        losses = [begun() for begun in trained]
        other[1].copy_(own[0], non_blocking=True)
        other[0].copy_(own[1], non_blocking=True)
        for loss in losses:
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


LOOPS: dict[str, Callable[[], Callable[[], None]]] = {
    "train": train,
    "launch": launch,
    "tiny": tiny,
    "loader": loader,
    "pair": pair,
    "wide-pair": partial(pair, 4096),
    "memory-pair": partial(pair, 8192, 128),
    "zeros-pair": partial(pair, 4096, scale=0),
    "broad": partial(train, 16384, 512),
    "broad-pair": partial(pair, 16384, 512),
}


def measure(name: str, seconds: float) -> dict[str, object]:
    """Return how many iterations of a loop there were, and the quartiles of their times."""
    step = LOOPS[name]()
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    times = [time.perf_counter()]
    while times[-1] < times[0] + seconds:
        step()
        times.append(time.perf_counter())
    taken = [b - a for a, b in pairwise(times)]
    return {"iterations": len(taken), "iteration_s": statistics.quantiles(taken)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loops", nargs="+", choices=LOOPS)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each")
    arguments = parser.parse_args()
    loops = {name: measure(name, arguments.seconds) for name in arguments.loops}
    print(json.dumps({"loops": loops}))


if __name__ == "__main__":
    main()
