"""Loops of PyTorch and CuPy for the closed loop of advise that `advise` was not made with.

``python benchmarks/advise/unseen.py NAME --form before|after`` runs one as
``python -m lanescope.examples loop`` runs the first set. The CUDA C++ ones are in unseen.cu.
They and `CHANGES` were written without a look at the code of `advise`, or at what it says of them.
What they measured once has changed it since: docs/advise.md has the figures before and after.

============  ==================================================  ================================
name          before                                              after
============  ==================================================  ================================
serve-logits  images of each request and logits by pageable       both buffers pinned
              memory
embed-gather  rows of a table of the CPU, gathered when needed    next step's rows gathered into
                                                                  pinned memory, and sent, ahead
checkpoint    `state_dict` by `.cpu()`, tensor by tensor          pinned snapshot, one wait
monte-carlo   `float(mean)` of each batch of paths                means read at the end of a step
fft-chunks    `cupy.asarray`, filter, `.get()` of each chunk      both buffers pinned
prefetched    pinned, two batches ahead, bound by kernels         no change: nothing to gain
============  ==================================================  ================================
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from program_command import run_named

#: By program, what its form ``after`` does; nothing where no advice is worth it.
CHANGES: dict[str, set[str]] = {
    "serve-logits": {"pin"},
    "embed-gather": {"pin", "prefetch"},
    "checkpoint": {"pin", "async"},
    "monte-carlo": {"defer"},
    "fft-chunks": {"pin"},
    "halo": {"pin", "batch"},
    "prefetched": set(),
    "steer": set(),
}
IN_CUDA = ("halo", "steer")
IN_PYTORCH = ("serve-logits", "embed-gather", "checkpoint", "prefetched")


def serve_logits(after: bool) -> Iterator[float]:
    """A server: 32 images of 8 bit a request, scaled on the CPU; their classes go back."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 7, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 128, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(128, 256, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(256, 512, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 1000),
    ).cuda()
    requests = torch.randint(0, 256, (4, 32, 3, 224, 224), dtype=torch.uint8)
    images = torch.empty(requests.shape[1:], pin_memory=after)
    logits = torch.empty(32, 1000, pin_memory=after)
    number = 0
    while True:
        torch.div(requests[number % len(requests)], 255, out=images)
        with torch.inference_mode():
            found = net(images.to("cuda", non_blocking=after))
        if after:
            logits.copy_(found, non_blocking=True)
            torch.cuda.current_stream().synchronize()
        else:
            logits = found.cpu()
        classes = logits.softmax(dim=1).topk(5)
        number += 1
        yield float(classes.values.double().sum())


def embed_gather(after: bool) -> Iterator[float]:
    """Training on a frozen table of embeddings that lies on the CPU: 20 rows a sample."""
    import torch

    torch.manual_seed(0)
    table = torch.randn(400_000, 64)
    batch, fields = 4096, 20
    net = torch.nn.Sequential(
        torch.nn.Linear(fields * 64, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, 1),
    ).cuda()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-4)
    labels = torch.rand(batch, 1, device="cuda").round()
    rows = [torch.empty(batch * fields, 64, pin_memory=after) for _ in range(1 + after)]
    ahead = torch.cuda.Stream()

    def upload(number: int) -> torch.Tensor:
        picked = torch.randint(0, len(table), (batch * fields,))
        staged = rows[number % len(rows)]
        torch.index_select(table, 0, picked, out=staged)
        if not after:
            return staged.cuda()
        with torch.cuda.stream(ahead):
            return staged.to("cuda", non_blocking=True)

    following = upload(0) if after else None
    number = 0
    while True:
        number += 1
        if following is None:
            inputs = upload(number)
        else:
            torch.cuda.current_stream().wait_stream(ahead)
            inputs = following
            inputs.record_stream(torch.cuda.current_stream())
        found = net(inputs.view(batch, -1))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(found, labels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if after:
            following = upload(number)
        yield loss.item()


def checkpoint(after: bool) -> Iterator[float]:
    """Four steps of training, then a checkpoint of 24 MiB in 12 tensors, with its CRC."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)]).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-4)
    inputs = torch.randn(2048, 1024, device="cuda")
    pinned = {}
    if after:
        pinned = {k: torch.empty(v.shape, pin_memory=True) for k, v in net.state_dict().items()}
    while True:
        for _ in range(4):
            loss = net(inputs).square().mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        state = net.state_dict()
        if after:
            saved = {k: pinned[k].copy_(v, non_blocking=True) for k, v in state.items()}
            torch.cuda.current_stream().synchronize()
        else:
            saved = {k: v.cpu() for k, v in state.items()}
        code, total = 0, 0.0
        for value in saved.values():
            code = zlib.crc32(value.numpy(), code)  # as a writer of checkpoints does
            total += float(value.flatten()[::97].double().abs().sum())
        yield total


def monte_carlo(after: bool) -> Iterator[float]:
    """The price of an option: 40 batches of paths a step, the mean of each looked at."""
    import cupy

    cupy.random.seed(0)
    while True:
        total, means = 0.0, []
        for _ in range(40):
            draws = cupy.random.standard_normal(1 << 18, dtype=cupy.float32)
            prices = 100 * cupy.exp(0.2 * draws - 0.02)
            mean = cupy.maximum(prices - 105, 0).mean()
            if after:
                means.append(mean)
            else:
                total += float(mean)
        if after:
            total = float(cupy.stack(means).sum(dtype=cupy.float64))
        yield total


def fft_chunks(after: bool) -> Iterator[float]:
    """A low-pass filter of a long signal, four chunks of 8 MiB a step; peaks found on the CPU."""
    import cupy
    import cupyx
    import numpy as np

    shape = (512, 4096)
    chunks = np.random.default_rng(0).standard_normal((4, *shape), dtype=np.float32)
    buffers: list[np.ndarray] = []
    if after:
        for chunk in chunks:  # the reader of the signal fills them
            buffers.append(cupyx.empty_pinned(shape, np.float32))
            buffers[-1][:] = chunk
    result = cupyx.empty_pinned(shape, np.float32) if after else None
    device = cupy.empty(shape, np.float32)
    passed = cupy.exp(-cupy.arange(shape[1] // 2 + 1, dtype=cupy.float32) / 256)
    while True:
        peaks = 0.0
        for number, chunk in enumerate(chunks):
            if result is None:
                signal = cupy.asarray(chunk)
            else:
                device.set(buffers[number])
                signal = device
            smooth = cupy.fft.irfft(cupy.fft.rfft(signal, axis=1) * passed, n=shape[1], axis=1)
            found = smooth.get(out=result)
            peaks += float(found.max(axis=1).sum(dtype=np.float64))
        yield peaks


def prefetched(after: bool) -> Iterator[float]:
    """Training as it should be: pinned batches, uploaded while the one before computes."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096),
        torch.nn.ReLU(),
        torch.nn.Linear(4096, 4096),
        torch.nn.ReLU(),
        torch.nn.Linear(4096, 16),
    ).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-4)
    batches = [torch.randn(8192, 1024).pin_memory() for _ in range(4)]
    slots = [torch.empty(8192, 1024, device="cuda") for _ in range(2)]
    copied = [torch.cuda.Event() for _ in slots]
    ahead = torch.cuda.Stream()

    def upload(number: int) -> None:
        slot = number % len(slots)
        ahead.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(ahead):
            slots[slot].copy_(batches[number % len(batches)], non_blocking=True)
            copied[slot].record()

    for number in range(len(slots)):
        upload(number)
    number, logged = 0, 0.0
    while True:
        slot = number % len(slots)
        copied[slot].synchronize()  # no more than two steps ahead
        torch.cuda.current_stream().wait_event(copied[slot])
        loss = net(slots[slot]).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        upload(number + len(slots))
        number += 1
        if number % 20 == 0:
            logged = loss.item()
        yield logged


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "serve-logits": serve_logits,
    "embed-gather": embed_gather,
    "checkpoint": checkpoint,
    "monte-carlo": monte_carlo,
    "fft-chunks": fft_chunks,
    "prefetched": prefetched,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
