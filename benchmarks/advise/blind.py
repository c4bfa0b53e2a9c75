"""A fourth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/blind.py NAME --form before|after`` runs one. The CUDA C++ ones are in
blind.cu. They, `CHANGES` and `TEMPTING` were written without a look at the code of `advise`, or at
what it says of them; nor had they run on a GPU. What a comment here says of time is what
their writer expected.

===========  =====================================================  ============================
name         before                                                 after
===========  =====================================================  ============================
recommender  64 columns of features, copied one by one              gathered in one pinned
                                                                    buffer, one copy
classify     images of 8 bit, pageable, scaled on the GPU           pinned, next ones sent while
                                                                    these are classified
patches      of a scan, cropped into pinned buffers, by copies for  by copies that it does not
             which the host waits                                   wait for
sampler      denoising by large layers, the number of each pass     all numbers in one copy: no
             copied before it                                       gain is expected
bands        tiles of a satellite, pinned, on one stream            on three streams
===========  =====================================================  ============================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import cupy
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # What the buffer of all columns is made of matters little: it is 512 KiB.
    "recommender": ({"pin", "batch"}, {"batch"}),
    # Sent ahead is asynchronous by itself.
    "classify": ({"pin", "prefetch"}, {"pin", "async", "prefetch"}),
    # The buffers are pinned already; the next patch is cropped while this one is copied.
    "patches": ({"async"},),
    # The kernels of a pass take milliseconds, its number some microseconds.
    "sampler": (),
    # Memory is pinned and the calls are asynchronous already. Tiles on streams go in, through the
    # kernels and out at the same time; sent ahead by another stream they do so as well.
    "bands": ({"streams"}, {"prefetch"}),
    # Nothing looks at a price before the step ends.
    "pricer": ({"defer"},),
    # The host needs the field before it goes on, so that to copy it without a wait is the same.
    "wave": ({"pin"}, {"pin", "async"}),
    # Both directions of the link are busy all the time.
    "triple": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"sampler": {"pin", "batch"}, "triple": {"streams"}}
IN_CUDA = ("pricer", "wave", "triple")
IN_PYTORCH = ("recommender", "classify", "patches", "sampler")


def recommender(after: bool) -> Iterator[float]:
    """Ranks 1024 candidates by 64 features, each a column of 8 KiB, a row of a table of its own."""
    import torch

    torch.manual_seed(0)
    fields, candidates, rows, width = 64, 1024, 10_000, 16
    tables = [torch.randn(rows, width, device="cuda") for _ in range(fields)]
    net = torch.nn.Sequential(
        torch.nn.Linear(fields * width, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 1),
    ).cuda()
    requests = [[torch.randint(0, rows, (candidates,)) for _ in range(fields)] for _ in range(4)]
    gathered = torch.empty(fields, candidates, dtype=torch.long, pin_memory=after)
    number = 0
    while True:
        columns = requests[number % len(requests)]
        if after:
            indices = torch.stack(columns, out=gathered).cuda().unbind()
        else:
            indices = [column.cuda() for column in columns]
        with torch.inference_mode():
            found = [table[index] for table, index in zip(tables, indices, strict=True)]
            scores = net(torch.cat(found, dim=1)).squeeze(1)
            best = scores.topk(10).values.cpu()
        number += 1
        yield float(best.double().sum())


def classify(after: bool) -> Iterator[float]:
    """Classifies 256 images a step, which come as 37 MiB of bytes, scaled on the GPU."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 7, stride=4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 128, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(128, 256, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(256, 512, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 1000),
    ).cuda()
    mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(3, 1, 1)
    batches = [torch.randint(0, 256, (256, 3, 224, 224), dtype=torch.uint8) for _ in range(4)]
    if after:
        batches = [batch.pin_memory() for batch in batches]
    ahead = torch.cuda.Stream()

    def upload(number: int) -> torch.Tensor:
        batch = batches[number % len(batches)]
        if not after:
            return batch.cuda()
        with torch.cuda.stream(ahead):
            return batch.to("cuda", non_blocking=True)

    following = upload(0) if after else None
    number = 0
    while True:
        if following is None:
            images = upload(number)
        else:
            torch.cuda.current_stream().wait_stream(ahead)
            images = following
            images.record_stream(torch.cuda.current_stream())
            following = upload(number + 1)
        with torch.inference_mode():
            scaled = (images.float() / 255 - mean) / deviation
            sure = net(scaled).softmax(dim=1).max(dim=1).values.cpu()
        number += 1
        yield float(sure.double().sum())


def patches(after: bool) -> Iterator[float]:
    """Looks for lesions in eight patches of 8 MiB of a scan, each cropped and scaled by the CPU."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(4)  # the other cores read other scans
    scan = torch.randn(256, 288, 288)
    corners = [(z, y, x) for z in (0, 128) for y in (16, 144) for x in (16, 144)]
    buffers = [torch.empty(128, 128, 128, pin_memory=True) for _ in corners]
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.GELU(),
        torch.nn.Linear(128, 8),
    ).cuda()

    def cropped(corner: tuple[int, int, int], buffer: torch.Tensor) -> torch.Tensor:
        z, y, x = corner
        patch = scan[z : z + 128, y : y + 128, x : x + 128]
        return torch.clamp(patch, -2, 2, out=buffer).add_(2).mul_(0.25)

    def found(patch: torch.Tensor) -> torch.Tensor:
        cells = patch.view(32, 4, 32, 4, 32, 4).permute(0, 2, 4, 1, 3, 5).reshape(-1, 64)
        return net(cells).amax()

    while True:
        scores = []
        for corner, buffer in zip(corners, buffers, strict=True):
            patch = cropped(corner, buffer).to("cuda", non_blocking=after)
            with torch.inference_mode():
                scores.append(found(patch))
        yield sum(torch.stack(scores).tolist())  # waits for all: the buffers can be filled again


def sampler(after: bool) -> Iterator[float]:
    """Takes noise from 4096 samples in four passes of two large layers in fp32."""
    import torch

    torch.manual_seed(0)
    width, samples, passes = 4096, 4096, [900, 600, 300, 0]
    first, second = (torch.nn.Linear(width, width).cuda() for _ in range(2))
    times = torch.randn(1000, width, device="cuda")
    noise = torch.randn(samples, width, device="cuda")
    gathered = torch.empty(len(passes), 1, dtype=torch.long, pin_memory=after)
    while True:
        values, numbers = noise, []
        if after:
            torch.stack([torch.tensor([time]) for time in passes], out=gathered)
            numbers = list(gathered.cuda().unbind())
        with torch.inference_mode():
            for place, time in enumerate(passes):
                number = numbers[place] if after else torch.tensor([time]).cuda()
                hidden = torch.relu(first(values) + times[number])
                values = values - 0.1 * second(hidden)
            spread = values.square().mean()
        yield float(spread)


def bands(after: bool) -> Iterator[float]:
    """The vegetation of eight tiles of a satellite, from two bands of 8 MiB each."""
    import cupy
    import cupyx
    import numpy as np

    shape, count = (2048, 2048), 8
    random = np.random.default_rng(0)
    tiles = [[cupyx.empty_pinned(shape, np.uint16) for _ in range(2)] for _ in range(count)]
    for tile in tiles:  # the reader of the tiles fills them
        for band in tile:
            band[:] = random.integers(0, 10_000, shape, dtype=np.uint16)
    results = [cupyx.empty_pinned(shape, np.int16) for _ in tiles]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3 if after else 1)]
    inputs = [[cupy.empty(shape, np.uint16) for _ in range(2)] for _ in streams]
    while True:
        for number, tile in enumerate(tiles):
            stream, given = streams[number % len(streams)], inputs[number % len(streams)]
            with stream:
                for band, host in zip(given, tile, strict=True):
                    band.set(host, stream=stream)
                vegetation(*given).get(stream=stream, out=results[number], blocking=False)
        for stream in streams:
            stream.synchronize()
        yield float(sum(int(result[::16, ::16].sum(dtype=np.int64)) for result in results))


def vegetation(red: cupy.ndarray, infrared: cupy.ndarray) -> cupy.ndarray:
    """Return the normalised difference of two bands, in ten thousandths."""
    import cupy

    low, high = red.astype(cupy.float32), infrared.astype(cupy.float32)
    return (10_000 * (high - low) / (high + low + 1)).astype(cupy.int16)


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "recommender": recommender,
    "classify": classify,
    "patches": patches,
    "sampler": sampler,
    "bands": bands,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
