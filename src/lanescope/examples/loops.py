"""Loops as people write them, and as an expert would change them, for the closed loop of advise.

``python -m lanescope.examples loop NAME --form before|after`` runs one and prints the median
seconds of a step, and a checksum that both forms have in common. Needs PyTorch, or CuPy. The list
was written before `advise` was changed for it; what fails stays in it. The CUDA C++ ones are in
benchmarks/advise/programs.cu.

The forms differ in what the name says, in nothing else:

======================  ===============================================  ==========================
name                    before                                           after
======================  ===============================================  ==========================
train-pageable          batches from pageable memory, `.cuda()`          pinned, next batch ahead
infer-to-cpu            results by `.cpu()`, new memory each time        pinned buffer, used again
many-small              64 small arrays copied one by one                one packed copy
offload-layers          weights of each layer copied when it is needed   copied one layer ahead
item-each-step          `loss.item()` in each step                       losses read at the end
numpy-to-cupy           `cupy.asarray` of a large array, pageable        through a pinned buffer
======================  ===============================================  ==========================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from statistics import median
from typing import Annotated

import typer

from lanescope.errors import InputError

MIB = 1 << 20
#: Steps that are not timed.
WARMING = 5
_MOST_STEPS = 1_000_000


def run(program: Iterator[float], steps: int) -> tuple[list[float], float]:
    """Return the seconds of each step but the first five, and the checksum of the last."""
    seconds, checksum = [], 0.0
    for number in range(steps):
        began = time.perf_counter()
        checksum = next(program)
        if number >= WARMING:
            seconds.append(time.perf_counter() - began)
    return seconds, checksum


def train_pageable(after: bool) -> Iterator[float]:
    """A training loop: 64 MiB of inputs a step, a small network, its loss in each step."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(1024, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 16)
    ).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-6)
    batches = [torch.randn(16384, 1024) for _ in range(4)]
    if after:
        batches = [batch.pin_memory() for batch in batches]
    ahead = torch.cuda.Stream()

    def upload(number: int) -> torch.Tensor:
        batch = batches[number % len(batches)]
        if not after:
            return batch.cuda()
        with torch.cuda.stream(ahead):
            return batch.to("cuda", non_blocking=True)

    following, loss = upload(0), torch.zeros(())
    number = 0
    while True:
        torch.cuda.current_stream().wait_stream(ahead)
        inputs = following
        inputs.record_stream(torch.cuda.current_stream())
        number += 1
        if after:
            following = upload(number)
        loss = net(inputs).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if not after:
            following = upload(number)
        torch.cuda.current_stream().synchronize()
        yield float(loss.detach().cpu())


def infer_to_cpu(after: bool) -> Iterator[float]:
    """Inference: 64 MiB of results a step go back to the host."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Linear(256, 1024).cuda()
    inputs = torch.randn(16384, 256, device="cuda")
    results = torch.empty(16384, 1024, pin_memory=True) if after else None
    while True:
        with torch.no_grad():
            found = net(inputs)
        if results is None:
            host = found.cpu()
        else:
            host = results.copy_(found, non_blocking=True)
            torch.cuda.current_stream().synchronize()
        yield float(host[::4096, ::512].double().sum())


def many_small(after: bool) -> Iterator[float]:
    """64 arrays of 4 KiB go to the GPU in each step."""
    import torch

    torch.manual_seed(0)
    arrays = [torch.randn(1024) for _ in range(64)]
    packed = torch.empty(64, 1024, pin_memory=True)
    while True:
        if after:
            torch.stack(arrays, out=packed)
            found = packed.to("cuda", non_blocking=True)
        else:
            found = torch.stack([array.cuda() for array in arrays])
        total = found.square().sum()
        torch.cuda.current_stream().synchronize()
        yield float(total)


def offload_layers(after: bool) -> Iterator[float]:
    """Eight layers whose weights of 64 MiB lie in pinned host memory."""
    import torch

    torch.manual_seed(0)
    weights = [(torch.randn(4096, 4096) / 64).pin_memory() for _ in range(8)]
    inputs = torch.randn(8192, 4096, device="cuda")
    ahead = torch.cuda.Stream()

    def upload(number: int) -> torch.Tensor:
        if not after:
            return weights[number].to("cuda")
        with torch.cuda.stream(ahead):
            return weights[number].to("cuda", non_blocking=True)

    while True:
        found = inputs
        following = upload(0) if after else None
        for number in range(len(weights)):
            if following is None:
                weight = upload(number)
            else:
                torch.cuda.current_stream().wait_stream(ahead)
                weight = following
                weight.record_stream(torch.cuda.current_stream())
                following = upload(min(number + 1, len(weights) - 1))
            found = torch.relu(found @ weight)
        torch.cuda.current_stream().synchronize()
        yield float(found[::1024, ::512].double().sum().cpu())


def item_each_step(after: bool) -> Iterator[float]:
    """A launch-bound loop of 100 small updates that looks at a number in each of them."""
    import torch

    torch.manual_seed(0)
    values = torch.randn(1 << 16, device="cuda")
    while True:
        total, losses = 0.0, []
        for _ in range(100):
            loss = (values * 1.0001).square().mean()
            if after:
                losses.append(loss)
            else:
                total += loss.item()
        if after:
            total = float(torch.stack(losses).double().sum().cpu())
        yield total


def numpy_to_cupy(after: bool) -> Iterator[float]:
    """An array of 256 MiB from NumPy in each step, and its sum of squares."""
    import cupy
    import cupyx
    import numpy as np

    values = np.random.default_rng(0).standard_normal(32 * MIB)
    pinned = cupyx.empty_pinned(values.shape, values.dtype) if after else None
    if pinned is not None:
        pinned[:] = values  # the program reads its data into it
    device = cupy.empty(values.shape, values.dtype)
    while True:
        if pinned is None:
            found = cupy.asarray(values)
        else:
            device.set(pinned)
            found = device
        total = float(cupy.square(found).sum())
        cupy.cuda.get_current_stream().synchronize()
        yield total


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "train-pageable": train_pageable,
    "infer-to-cpu": infer_to_cpu,
    "many-small": many_small,
    "offload-layers": offload_layers,
    "item-each-step": item_each_step,
    "numpy-to-cupy": numpy_to_cupy,
}


class Form(StrEnum):
    """As it is written, or as it is advised."""

    BEFORE = "before"
    AFTER = "after"


def loop(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(PROGRAMS)}.")],
    form: Annotated[
        Form,
        typer.Option("--form", metavar="FORM", help="before or after the change that is advised."),
    ] = Form.BEFORE,
    steps: Annotated[
        int,
        typer.Option("--steps", min=WARMING + 1, max=_MOST_STEPS, metavar="N", help="Of the loop."),
    ] = 60,
) -> None:
    """Run a loop of PyTorch or CuPy before or after a change of its transfers."""
    print(outcome(PROGRAMS, name, form is Form.AFTER, steps))


def outcome(
    programs: dict[str, Callable[[bool], Iterator[float]]], name: str, after: bool, steps: int
) -> str:
    """Run a loop in one of its forms; return a line with the median seconds of a step.

    Raises
    ------
    InputError
        There is no loop of that name, or its library is not installed.
    """
    if name not in programs:
        raise InputError(f"no loop is named {name!r}; there are {', '.join(programs)}")
    try:
        seconds, checksum = run(programs[name](after), steps)
    except ImportError as error:
        raise InputError(f"{name} needs {error.name}, which is not installed here") from error
    form = Form.AFTER if after else Form.BEFORE
    return f"{name} {form}: {median(seconds):.6f} s a step, checksum {checksum:.6g}"
