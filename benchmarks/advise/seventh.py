"""A seventh set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/seventh.py NAME --form before|after`` runs one. The CUDA C++ ones are
in seventh.cu. Their writer knew neither the code of `advise` nor what it says of them, and had no
GPU to run them on: what a comment says of time is a guess. "keep" in `CHANGES` is a word of that
writer's, for data that stay on the GPU in place of a way to the host and back.

========  =========================================================  ===========================
name      before                                                     after
========  =========================================================  ===========================
serve     requests stacked into new pageable memory, then sent       stacked into pinned memory
lookup    rows of a table on the host gathered, sent, learned from   next rows sent meanwhile,
                                                                     by pinned memory
generate  each word by `.item()`, sent back to find the next         words stay; read at the end
embed     each result by `.cpu()` to new memory                      to pinned memory, one wait
diffuse   16 KiB of pageable memory sent before each 4 ms of         pinned: no gain is expected
          products of matrices
terrain   a tile sent, worked on, and its result got, pageable       pinned, on three streams
stages    three stages, each with NumPy's arrays at both ends        arrays stay on the GPU
========  =========================================================  ===========================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import cupy
    import numpy as np
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # New pages for 14 MiB, then the rate of pageable memory. A batch's answers are awaited before
    # the next is taken from the queue, so that an asynchronous call by itself is little.
    "serve": ({"pin"}, {"pin", "async"}),
    # Gathering takes the CPU about as long as a batch takes the GPU; the rows are not learned,
    # so that those of the next batch can be gathered and sent while the GPU works.
    "lookup": ({"pin", "prefetch"},),
    # The host only hands the word back. That it needs no copy to the GPU follows from its not
    # being read: both are one change.
    "generate": ({"defer"}, {"keep"}, {"defer", "keep"}),
    # 16 MiB to new pages take several times as long as the kernels; no result is looked at before
    # all are there.
    "embed": ({"pin", "async"},),
    # Each copy waits for the kernels before it, after which the GPU idles for some 30 us in 5 ms.
    "diffuse": (),
    # Copies both ways are as long as the kernel at the rate of pinned memory, and go along with
    # the kernels of other tiles.
    "terrain": ({"pin", "async", "streams"}, {"pin", "streams"}),
    # Two of three results go to the host only to be sent back as they are.
    "stages": ({"keep"},),
    # A scenario's six numbers and lists go one by one to the GPU, though all scenarios are known.
    "paths": ({"batch"},),
    # Nearly all of a step is copies from and to memory of malloc.
    "cipher": ({"pin"}, {"pin", "async"}),
    # Pinned, asynchronous, two buffers: the link is always busy, and kernels are shorter.
    "scan": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"diffuse": {"pin", "async"}, "scan": {"streams"}}
IN_CUDA = ("paths", "cipher", "scan")
IN_PYTORCH = ("serve", "lookup", "generate", "embed", "diffuse")


def serve(after: bool) -> Iterator[float]:
    """Answers 144 requests, a picture of 588 KiB each, in batches of 24 from a queue."""
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    batch, side, waiting = 24, 224, 144
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 7, stride=4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * 27 * 27, 100),
    ).cuda()
    pictures = [torch.rand(3, side, side) for _ in range(waiting)]
    staging = torch.empty(batch, 3, side, side).pin_memory() if after else None

    @torch.inference_mode()
    def answers(requests: list[torch.Tensor]) -> list[int]:
        stacked = torch.stack(requests, out=staging)
        given = stacked.to("cuda", non_blocking=after)
        return net(given).argmax(1).tolist()  # waits, so that staging can be filled again

    queue: deque[torch.Tensor] = deque()
    number = 0
    while True:
        turn = 7 * number % waiting
        queue.extend(pictures[turn:] + pictures[:turn])
        number += 1
        total = 0
        while queue:
            requests = [queue.popleft() for _ in range(min(batch, len(queue)))]
            total += sum(place * one for place, one in enumerate(answers(requests), 1))
        yield float(total)


class Sender:
    """Sends the rows of a table that a batch names; two batches may be under way."""

    def __init__(self, table: torch.Tensor, batches: list[torch.Tensor]) -> None:
        import torch

        self.table, self.batches = table, batches
        shape = (len(batches[0]), table.shape[1])
        self.buffers = [torch.empty(shape).pin_memory() for _ in range(2)]
        self.rows = [torch.empty(shape, device="cuda") for _ in range(2)]
        self.sent = [torch.cuda.Event() for _ in range(2)]
        self.used = [torch.cuda.Event() for _ in range(2)]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def send(self, number: int) -> None:
        """Gather a batch's rows while the GPU works, and send them by a stream of their own."""
        import torch

        slot = number % 2
        self.sent[slot].synchronize()  # the copy out of the buffer, two batches ago
        places = self.batches[number % len(self.batches)]
        torch.index_select(self.table, 0, places, out=self.buffers[slot])
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.used[slot])
            self.rows[slot].copy_(self.buffers[slot], non_blocking=True)
            self.sent[slot].record(self.stream)

    def receive(self, number: int) -> torch.Tensor:
        """Return the rows of a batch, which the current stream's next kernels may read."""
        import torch

        torch.cuda.current_stream().wait_event(self.sent[number % 2])
        return self.rows[number % 2]

    def release(self, number: int) -> None:
        """Let the rows be overwritten once the kernels launched so far are done."""
        import torch

        self.used[number % 2].record(torch.cuda.current_stream())


def lookup(after: bool) -> Iterator[float]:
    """Learns from 2048 samples a batch, each 26 rows of a fixed table of 256 MiB on the host."""
    import torch

    torch.manual_seed(0)
    entries, width, samples, fields, in_step = 1 << 20, 64, 2048, 26, 6
    table = torch.empty(entries, width).uniform_(-1, 1)
    batches = [torch.randint(0, entries, (samples * fields,)) for _ in range(10)]
    wanted = torch.rand(len(batches), samples, 1).cuda()
    net = torch.nn.Sequential(
        torch.nn.Linear(fields * width, 2048),
        torch.nn.ReLU(),
        torch.nn.Linear(2048, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, 1),
    ).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-4)

    def learn(rows: torch.Tensor, number: int) -> torch.Tensor:
        found = net(rows.view(samples, fields * width))
        loss = (found - wanted[number % len(batches)]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.detach()

    sender = Sender(table, batches) if after else None
    if sender:
        sender.send(0)
    number = 0
    while True:
        total = torch.zeros((), device="cuda")
        for _ in range(in_step):
            if sender:
                total += learn(sender.receive(number), number)
                sender.release(number)
                sender.send(number + 1)
            else:
                rows = table.index_select(0, batches[number % len(batches)]).to("cuda")
                total += learn(rows, number)
            number += 1
        yield total.item()


def generate(after: bool) -> Iterator[float]:
    """Writes 192 words a step, always the likeliest, by a recurrent net of two layers."""
    import torch

    torch.manual_seed(0)
    length, width, words = 192, 512, 8192
    embedding = torch.nn.Embedding(words, width).cuda()
    lower = torch.nn.GRUCell(width, width).cuda()
    upper = torch.nn.GRUCell(width, width).cuda()
    head = torch.nn.Linear(width, words).cuda()

    @torch.inference_mode()
    def text(first: int) -> list[int]:
        below = torch.zeros(1, width, device="cuda")
        above = torch.zeros(1, width, device="cuda")
        word = torch.tensor([first], device="cuda")
        found = []
        for _ in range(length):
            below = lower(embedding(word), below)
            above = upper(below, above)
            word = head(above).argmax(1)
            if after:
                found.append(word)
            else:
                found.append(word.item())
                word = torch.tensor([found[-1]], device="cuda")
        return torch.cat(found).tolist() if after else found

    number = 0
    while True:
        found = text(131 * number % words)
        number += 1
        yield float(sum(place * word for place, word in enumerate(found, 1)))


def embed(after: bool) -> Iterator[float]:
    """Vectors of five batches of 64 texts for an index on the host: 16 MiB a batch."""
    import torch

    torch.manual_seed(0)
    count, texts, length, width, words = 5, 64, 128, 512, 4096
    pages = torch.randint(0, words, (count, texts, length)).cuda()
    embedding = torch.nn.Embedding(words, width).cuda()
    blocks = [
        torch.nn.Sequential(
            torch.nn.LayerNorm(width),
            torch.nn.Linear(width, 4 * width),
            torch.nn.GELU(),
            torch.nn.Linear(4 * width, width),
        ).cuda()
        for _ in range(2)
    ]
    kept = [torch.empty(texts, length, width).pin_memory() for _ in range(count)] if after else []

    def vectors(page: torch.Tensor) -> torch.Tensor:
        hidden = embedding(page)
        for block in blocks:
            hidden = hidden + block(hidden)
        return hidden

    @torch.inference_mode()
    def index() -> list[torch.Tensor]:
        if not after:
            return [vectors(page).cpu() for page in pages]
        for page, place in zip(pages, kept, strict=True):
            place.copy_(vectors(page), non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return kept

    while True:
        pages = pages.roll(1, 2)
        yield sum(one.view(-1)[::4099].double().abs().sum().item() for one in index())


def diffuse(after: bool) -> Iterator[float]:
    """Learns the noise in vectors; how much each has is drawn on the host, four batches a step."""
    import torch

    torch.manual_seed(0)
    batch, width, levels, in_step = 2048, 2048, 1000, 4
    net = torch.nn.Sequential(
        torch.nn.Linear(width, width),
        torch.nn.SiLU(),
        torch.nn.Linear(width, width),
        torch.nn.SiLU(),
        torch.nn.Linear(width, width),
        torch.nn.SiLU(),
        torch.nn.Linear(width, width),
    ).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-4)
    clean = torch.randn(batch, width).cuda()
    noise = torch.randn(in_step, batch, width).cuda()
    share = torch.linspace(0, 1, levels).unsqueeze(1).cuda()
    while True:
        optimiser.zero_grad()
        total = torch.zeros((), device="cuda")
        for number in range(in_step):
            drawn = torch.randint(0, levels, (batch,))
            if after:
                drawn = drawn.pin_memory()
            part = share[drawn.to("cuda", non_blocking=after)]
            mixed = (1 - part).sqrt() * clean + part.sqrt() * noise[number]
            loss = (net(mixed) - noise[number]).square().mean() / in_step
            loss.backward()
            total += loss.detach()
        optimiser.step()
        yield total.item()


SKY = """
constexpr int kSide = 2048, kReach = 48, kWays = 8;

// How much of the sky is seen from each place, of 255, with a horizon in each of eight ways.
extern "C" __global__ void sky(const float* heights, unsigned char* seen) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  const int right[kWays] = {1, 1, 0, -1, -1, -1, 0, 1};
  const int down[kWays] = {0, 1, 1, 1, 0, -1, -1, -1};
  const float here = heights[y * kSide + x];
  float sum = 0;
#pragma unroll
  for (int way = 0; way < kWays; ++way) {
    const float length = right[way] != 0 && down[way] != 0 ? 1.4142135f : 1.0f;
    float steepest = 0;
    for (int step = 1; step <= kReach; ++step) {
      const int column = min(max(x + step * right[way], 0), kSide - 1);
      const int row = min(max(y + step * down[way], 0), kSide - 1);
      const float rise = heights[row * kSide + column] - here;
      steepest = fmaxf(steepest, __fdividef(rise, length * step));
    }
    sum += 1 - steepest * rsqrtf(1 + steepest * steepest);
  }
  seen[y * kSide + x] = static_cast<unsigned char>(255 * sum / kWays);
}
"""


def terrain(after: bool) -> Iterator[float]:
    """How much sky is seen in six tiles of a map: heights of 16 MiB in, 4 MiB out for each."""
    import cupy
    import cupyx
    import numpy as np

    count, side, threads, lanes = 6, 2048, 256, 3
    sky = cupy.RawKernel(SKY, "sky")
    random = np.random.default_rng(0)
    hills = random.standard_normal((side, side), dtype=np.float32).cumsum(axis=1) / 4
    tiles = [np.roll(hills, 211 * number, axis=1) for number in range(count)]
    results = [np.empty(0, dtype=np.uint8) for _ in tiles]
    if after:
        tiles = [pinned_copy(tile) for tile in tiles]
        results = [cupyx.empty_pinned((side, side), np.uint8) for _ in tiles]
    heights = [cupy.empty((side, side), dtype=cupy.float32) for _ in range(lanes)]
    seen = [cupy.empty((side, side), dtype=cupy.uint8) for _ in range(lanes)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(lanes)]
    grid = (side // threads, side)
    while True:
        for number, tile in enumerate(tiles):
            if after:
                lane = number % lanes
                with streams[lane]:
                    heights[lane].set(tile, stream=streams[lane])
                    sky(grid, (threads,), (heights[lane], seen[lane]))
                    seen[lane].get(stream=streams[lane], out=results[number], blocking=False)
            else:
                heights[0].set(tile)
                sky(grid, (threads,), (heights[0], seen[0]))
                results[number] = seen[0].get()
        for stream in streams:
            stream.synchronize()
        yield float(sum(int(one[::16, ::16].sum(dtype=np.int64)) for one in results))


def pinned_copy(array: np.ndarray) -> np.ndarray:
    """Return a copy of an array in pinned memory."""
    import cupyx

    found = cupyx.empty_pinned(array.shape, array.dtype)
    found[...] = array
    return found


def stages(after: bool) -> Iterator[float]:
    """A picture of the sky, 16 MiB, made flat, smooth, and fit to be looked at."""
    import numpy as np

    side = 2048
    random = np.random.default_rng(0)
    pictures = [random.standard_normal((side, side), dtype=np.float32) + 9 for _ in range(4)]
    number = 0
    while True:
        found = shown(pictures[number % len(pictures)], after)
        number += 1
        yield float(np.abs(found[::16, ::16]).sum(dtype=np.float64))


def shown(picture: np.ndarray, after: bool) -> np.ndarray:
    """Return what three stages make of a picture, in memory of the host."""
    import cupy

    works = (flattened, smoothed, stretched)
    for work in works:
        found = work(cupy.asarray(picture))  # no copy of what is on the GPU
        picture = found if after and work is not works[-1] else found.get()
    return picture


def flattened(picture: cupy.ndarray) -> cupy.ndarray:
    """Return a picture without the brightness of each row and column."""
    rows = picture - picture.mean(axis=1, keepdims=True)
    return rows - rows.mean(axis=0, keepdims=True)


def smoothed(picture: cupy.ndarray) -> cupy.ndarray:
    """Return the mean of each point and the four next to it."""
    import cupy

    beside = cupy.roll(picture, 1, axis=1) + cupy.roll(picture, -1, axis=1)
    above = cupy.roll(picture, 1, axis=0) + cupy.roll(picture, -1, axis=0)
    return (picture + beside + above) / 5


def stretched(picture: cupy.ndarray) -> cupy.ndarray:
    """Return a picture whose faint points are brighter."""
    import cupy

    return cupy.arcsinh(8 * picture) / 4


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "serve": serve,
    "lookup": lookup,
    "generate": generate,
    "embed": embed,
    "diffuse": diffuse,
    "terrain": terrain,
    "stages": stages,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
