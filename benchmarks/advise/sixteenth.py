"""A sixteenth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/sixteenth.py NAME --form before|after`` runs one. The CUDA C++ ones are
in sixteenth.cu. They, `CHANGES` and `TEMPTING` were written blind: without a look at how `advise`
works, or at what it said of other sets, and without a GPU. Times in comments are guesses. "keep"
stands for data that stay on the GPU, in place of being sent anew.

========  ===========================================================  ===========================
name      before                                                       after
========  ===========================================================  ===========================
roads     24 MiB of pictures that the host cut and flipped, pageable,  pinned, `non_blocking`: the
          by `.cuda()`, which waits for the batch before               host is a batch ahead
anomaly   `.item()` of the loss of each batch; then the host takes     losses by one copy once all
          rows for the next one                                        batches are launched
moderate  `.cpu()` of what each of 20 heads of a net says              all by one copy
mixer     `.item()` of the loss after each 20 ms of kernels            losses by one copy: no gain
                                                                       is expected
hologram  `.get()` of 16 MiB to a new array for each plane             to pinned memory
reads     16 MiB of new reads from pinned memory, which take turns     the next batch is sent
          with kernels                                                 meanwhile
========  ===========================================================  ===========================
"""

from __future__ import annotations

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
    # Some 3 ms for a copy of pageable memory, which begins once 9 ms of kernels end. The host's 7
    # ms for the next batch pass while these run.
    "roads": ({"pin", "async"}, {"pin", "prefetch"}, {"pin", "async", "prefetch"}),
    # 4 bytes after each 2 ms of kernels; then the GPU idles for the millisecond in which the host
    # takes rows. The next batch needs nothing of the loss.
    "anomaly": ({"defer"}, {"batch", "defer"}),
    # 2 to 12 KB for each head, around some 10 µs of kernels. No head needs what another one says.
    "moderate": ({"batch"}, {"batch", "defer"}, {"defer"}),
    # 4 bytes, and as long as it takes to launch the first kernel of the next batch.
    "mixer": (),
    # Some 3 ms to new pageable memory, after less than a millisecond of kernels.
    "hologram": ({"pin"}, {"pin", "async"}),
    # 0.3 ms of the link, then 0.5 ms on the GPU, in turns. Reads are new in each batch.
    "reads": ({"prefetch"}, {"async", "prefetch"}, {"streams"}, {"async", "streams"}),
    # 56 MiB of a matrix go up for each solution, though it is the same for all.
    "reservoir": ({"keep"},),
    # 4 bytes to the stack after each two kernels of some microseconds; the host needs them to know
    # whether to go on.
    "blobs": ({"mapped"}, {"pin", "mapped"}),
    # All is pinned and asynchronous, but in one stream: 16 MiB up, a kernel and 16 MiB down take
    # turns.
    "calibrate": (
        {"streams"},
        {"async", "streams"},
        {"prefetch"},
        {"prefetch", "streams"},
        {"async", "prefetch"},
    ),
    # 48 columns of 64 KiB of pageable memory by a call each, of which a kernel needs all.
    "ledger": ({"pin", "batch"}, {"batch"}),
    # 2 MiB down, pinned, by a call that waits; then the GPU idles while the host counts for about
    # 2 ms. The next paths need nothing of that.
    "exposure": ({"async"}, {"defer"}, {"async", "defer"}),
    # 8 MiB of pageable memory, but by a stream of its own while a kernel of 10 ms runs.
    "screen": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"mixer": {"defer"}, "screen": {"pin"}}
IN_CUDA = ("reservoir", "blobs", "calibrate", "ledger", "exposure", "screen")
IN_PYTORCH = ("roads", "anomaly", "moderate", "mixer")


def roads(after: bool) -> Iterator[float]:
    """Trains a net to find roads on photos from the air, of which the host cuts and flips parts."""
    import numpy as np
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    photos, large, side, batch, width, depth, in_step = 8, 1024, 256, 32, 64, 6, 4
    half = side // 2
    random = np.random.default_rng(0)
    taken = random.integers(0, 256, (photos, 3, large // 8, large // 8), dtype=np.uint8)
    taken = taken.repeat(8, axis=2).repeat(8, axis=3)
    known = (taken[:, 1, ::2, ::2] > 150).astype(np.uint8)  # where roads are, at half the size
    layers = [torch.nn.Conv2d(3, width, 3, stride=2, padding=1), torch.nn.ReLU()]
    for _ in range(depth):
        layers += [torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Conv2d(width, 1, 1)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    # A place for each batch of a step, at the end of which the host waits for all of them.
    pictures = torch.empty(in_step, batch, 3, side, side, pin_memory=after)
    masks = torch.empty(in_step, batch, 1, half, half, dtype=torch.uint8, pin_memory=after)
    bytes_of = pictures.numpy(), masks.numpy()

    def cut(turn: int) -> None:
        """Put down parts of the photos, some of them flipped, brighter or darker."""
        for picture, mask in zip(bytes_of[0][turn], bytes_of[1][turn], strict=True):
            photo = int(random.integers(photos))
            top, left = (2 * random.integers(0, (large - side) // 2, 2)).tolist()
            part = taken[photo, :, top : top + side, left : left + side]
            own = known[photo, top // 2 : top // 2 + half, left // 2 : left // 2 + half]
            if random.random() < 0.5:
                part, own = part[:, ::-1], own[::-1]
            np.multiply(part, np.float32(random.uniform(0.8, 1.2) / 255), out=picture)
            mask[0] = own

    def train(picture: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch, from which the net learns."""
        optimizer.zero_grad()
        loss = binary_cross_entropy_with_logits(net(picture - 0.5), mask.float())
        loss.backward()
        optimizer.step()
        return loss.detach()

    while True:
        losses = []
        for turn in range(in_step):
            cut(turn)
            given = pictures[turn].cuda(non_blocking=after), masks[turn].cuda(non_blocking=after)
            losses.append(train(*given))
        yield 1000 * sum(torch.stack(losses).tolist())


def anomaly(after: bool) -> Iterator[float]:
    """Trains a net to tell rows of a table again from little, which fails for odd ones."""
    import numpy as np
    import torch
    from torch.nn.functional import mse_loss

    torch.manual_seed(0)
    rows, columns, wide, narrow, batch, in_step = 100000, 256, 2048, 512, 4096, 8
    random = np.random.default_rng(0)
    table = random.standard_normal((rows, columns), dtype=np.float32)
    table[:, columns // 2 :] += table[:, : columns // 2]
    net = torch.nn.Sequential(
        *(torch.nn.Linear(columns, wide), torch.nn.ReLU(), torch.nn.Linear(wide, narrow)),
        *(torch.nn.ReLU(), torch.nn.Linear(narrow, wide), torch.nn.ReLU()),
        torch.nn.Linear(wide, columns),
    ).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    # A place for each batch of a step, at the end of which the host waits for all of them.
    places = torch.empty(in_step, batch, columns, pin_memory=True)
    arrays = places.numpy()

    def train(turn: int) -> torch.Tensor:
        """Return the loss of a batch, which the host takes from the table."""
        np.take(table, random.integers(0, rows, batch), axis=0, out=arrays[turn], mode="clip")
        given = places[turn].cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = mse_loss(net(given), given)
        loss.backward()
        optimizer.step()
        return loss.detach()

    while True:
        if after:
            losses = torch.stack([train(turn) for turn in range(in_step)]).tolist()
        else:
            losses = [train(turn).item() for turn in range(in_step)]
        yield 100 * sum(losses) + max(losses)


#: Of how many kinds each head of `moderate` tells.
HEADS = {
    "spam": 2,
    "scam": 2,
    "insult": 3,
    "threat": 3,
    "hate": 4,
    "violence": 4,
    "weapons": 2,
    "drugs": 5,
    "gambling": 2,
    "adult": 4,
    "self_harm": 3,
    "private": 8,
    "copied": 2,
    "political": 3,
    "medical": 3,
    "advertising": 6,
    "language": 12,
    "tone": 7,
    "topic": 12,
    "age": 4,
}


def moderate(after: bool) -> Iterator[float]:
    """Says what is wrong with posts, by a head of a net for each rule."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    posts, width, inner, stored, in_step, sure = 256, 768, 256, 6, 4, 0.55
    recorded = torch.empty(stored, posts, width, pin_memory=True)
    recorded.copy_(torch.randn(recorded.shape))
    trunk = torch.nn.Sequential(
        *(torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)),
        torch.nn.GELU(),
    ).cuda()
    heads = {
        name: torch.nn.Sequential(
            *(torch.nn.Linear(width, inner), torch.nn.ReLU(), torch.nn.Linear(inner, kinds))
        ).cuda()
        for name, kinds in HEADS.items()
    }
    ends = np.cumsum(list(HEADS.values()))[:-1].tolist()
    strikes = np.zeros(posts, np.int64)  # of who wrote each post

    def received(number: int) -> torch.Tensor:
        """Return posts on the GPU, as vectors, the first of which is its number."""
        batch = recorded[number % stored]
        batch[0].fill_(number % 64 / 64)
        return batch.cuda(non_blocking=True)

    @torch.inference_mode()
    def chances(number: int) -> dict[str, np.ndarray]:
        """Return how likely each kind is, by head (posts, kinds)."""
        state = trunk(received(number))
        if not after:
            return {name: head(state).softmax(1).cpu().numpy() for name, head in heads.items()}
        found = torch.cat([head(state).softmax(1) for head in heads.values()], dim=1)
        return dict(zip(heads, np.split(found.cpu().numpy(), ends, axis=1), strict=True))

    def judge(said: dict[str, np.ndarray]) -> float:
        """Count strikes of those who wrote; return how many are out, and how sure heads are."""
        total = 0.0
        for own in said.values():
            strikes[own[:, 0] > sure] += 1
            total += float(own[:, 0].sum(dtype=np.float64))
        out = np.flatnonzero(strikes > 100)
        strikes[out] = 0
        return total + len(out)

    number = 0
    while True:
        yield sum(judge(chances(one)) for one in range(number, number + in_step))
        number += in_step


def mixer(after: bool) -> Iterator[float]:
    """Trains a net of layers that mix patches, then channels; pictures are on the GPU already."""
    import torch
    from torch.nn.functional import cross_entropy, gelu, layer_norm

    torch.manual_seed(0)
    samples, batch, patches, pixels, width, classes, in_step = 4096, 512, 64, 48, 384, 100, 2
    pictures = torch.randn(samples, patches, pixels, device="cuda")
    labels = torch.randint(classes, (samples,), device="cuda")
    pictures[:, 0, 0] += labels / classes
    enter = torch.nn.Linear(pixels, width)
    over_patches = [
        (torch.nn.Linear(patches, 2 * patches), torch.nn.Linear(2 * patches, patches))
        for _ in range(4)
    ]
    over_channels = [
        (torch.nn.Linear(width, 3 * width), torch.nn.Linear(3 * width, width)) for _ in range(4)
    ]
    leave = torch.nn.Linear(width, classes)
    pairs = [layer for pair in over_patches + over_channels for layer in pair]
    net = torch.nn.ModuleList([enter, *pairs, leave]).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)

    def scores(given: torch.Tensor) -> torch.Tensor:
        """Return how well each class fits (pictures, classes)."""
        state = enter(given)
        for (one, two), (three, four) in zip(over_patches, over_channels, strict=True):
            turned = layer_norm(state, (width,)).transpose(1, 2)
            state = state + two(gelu(one(turned))).transpose(1, 2)
            state = state + four(gelu(three(layer_norm(state, (width,)))))
        return leave(state.mean(dim=1))

    def train(number: int) -> torch.Tensor:
        """Return the loss of a batch, from which the net learns."""
        first = number * batch % samples
        optimizer.zero_grad()
        found = scores(pictures[first : first + batch])
        loss = cross_entropy(found, labels[first : first + batch])
        loss.backward()
        optimizer.step()
        return loss.detach()

    number = 0
    while True:
        numbers = range(number, number + in_step)
        if after:
            losses = torch.stack([train(one) for one in numbers]).tolist()
        else:
            losses = [train(one).item() for one in numbers]
        number += in_step
        yield 1000 * sum(losses)


def hologram(after: bool) -> Iterator[float]:
    """Finds how light was in planes behind a hologram, and on the host which of them are sharp."""
    import cupy
    import cupyx
    import numpy as np

    side, recorded, planes, in_step, pitch, wave = 2048, 3, 4, 2, 3.45, 0.532  # in µm
    random = np.random.default_rng(0)
    shots = [cupyx.empty_pinned((side, side), np.uint8) for _ in range(recorded)]
    for shot in shots:
        shot[:] = random.integers(80, 170, (side, side), dtype=np.uint8)
    shot_above = cupy.empty((side, side), np.uint8)
    bright = cupy.empty((side, side), np.float32)
    place = cupyx.empty_pinned((side, side), np.float32) if after else None
    across = np.fft.fftfreq(side, pitch) ** 2
    depth = np.sqrt(np.maximum(1 / wave**2 - across[:, None] - across, 0))
    phase = cupy.asarray((2 * np.pi * (depth - 1 / wave)).astype(np.float32))

    def spectrum_of(number: int) -> cupy.ndarray:
        """Return the spectrum of a hologram, the first row of which is the camera's counter."""
        shot = shots[number % recorded]
        shot[0] = number % 256
        shot_above.set(shot)
        return cupy.fft.fft2(shot_above.astype(np.complex64))

    def plane_at(distance: float, spectrum: cupy.ndarray) -> np.ndarray:
        """Return how bright it is in a plane (rows, columns)."""
        moved = spectrum * cupy.exp(phase * np.complex64(1j * distance))
        cupy.absolute(cupy.fft.ifft2(moved), out=bright)
        return bright.get() if place is None else bright.get(out=place)

    def sharpness(plane: np.ndarray) -> float:
        """Return how unlike neighbours are, in some rows."""
        some = plane[::16]
        return float(np.abs(some[:, 1:] - some[:, :-1]).sum(dtype=np.float64))

    number = 0
    while True:
        total = 0.0
        for _ in range(in_step):
            spectrum = spectrum_of(number)
            found = [sharpness(plane_at(200.0 + 50 * i, spectrum)) for i in range(planes)]
            total += max(found) + 1e-3 * sum(found)
            number += 1
        yield total


READS = r"""
constexpr int kLength = 128, kWord = 31, kBins = 16;  // bases of a read, of a word

// Counts how many words of each read are in a filter of 2^30 bits, as those of a known genome are;
// a thread for a read. `counts` has how many reads have no, few and many such words.
extern "C" __global__ void look(const unsigned char* reads, const unsigned int* filter,
                                int* counts) {
  __shared__ int bins[kBins];
  if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
  __syncthreads();
  const long long own = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  const uint4* read = reinterpret_cast<const uint4*>(reads + own * kLength);
  const unsigned long long all = (1ull << 2 * kWord) - 1;
  unsigned long long word = 0;
  int known = 0;
  for (int i = 0; i < kLength / 16; ++i) {
    const uint4 part = read[i];
    const unsigned int parts[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      word = (word << 2 | (parts[j / 4] >> (8 * (j % 4) + 1) & 3)) & all;
      if (16 * i + j < kWord - 1) continue;
      unsigned long long bits = word * 0x9e3779b97f4a7c15ull;
      bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9ull;
      const unsigned int one = static_cast<unsigned int>(bits) >> 2;
      const unsigned int two = static_cast<unsigned int>(bits >> 34);
      known += filter[one / 32] >> one % 32 & filter[two / 32] >> two % 32 & 1;
    }
  }
  atomicAdd(&bins[min(known / 2, kBins - 1)], 1);
  __syncthreads();
  if (threadIdx.x < kBins) atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}
"""


def reads(after: bool) -> Iterator[float]:
    """Counts reads of a sequencer that are not of what it was given, by a filter of words."""
    import cupy
    import cupyx
    import numpy as np

    count, length, bins, words, stored, in_step = 1 << 17, 128, 16, 1 << 25, 8, 6
    random = np.random.default_rng(0)
    look = cupy.RawModule(code=READS).get_function("look")
    letters = np.frombuffer(b"ACGT", np.uint8)
    ring = [cupyx.empty_pinned((count, length), np.uint8) for _ in range(stored)]
    for batch in ring:
        batch[:] = letters[random.integers(0, 4, (count, length), dtype=np.uint8)]
    filled = random.integers(0, 1 << 32, words, dtype=np.uint32)
    filled &= random.integers(0, 1 << 32, words, dtype=np.uint32)
    known = cupy.asarray(filled)
    places = [cupy.empty((count, length), np.uint8) for _ in range(1 + after)]
    counts = cupy.zeros((in_step, bins), np.int32)
    copies, main = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null
    there, free = ([cupy.cuda.Event(disable_timing=True) for _ in range(2)] for _ in range(2))

    def received(number: int) -> np.ndarray:
        """Return a batch as it came in, the first read of which tells its number."""
        batch = ring[number % stored]
        batch[0, :32] = letters[number >> np.arange(32) & 1]
        return batch

    def send(number: int) -> None:
        """Begin to send a batch, once the kernel before needs its place no more."""
        at = number % 2
        copies.wait_event(free[at])
        places[at].set(received(number), stream=copies)
        there[at].record(copies)

    def next_batch(number: int) -> cupy.ndarray:
        if not after:
            places[0].set(received(number))
            return places[0]
        send(number + 1)
        main.wait_event(there[number % 2])
        return places[number % 2]

    number = 0
    main.synchronize()
    if after:
        send(0)
    while True:
        counts.fill(0)
        for turn in range(in_step):
            look((count // 256,), (256,), (next_batch(number), known, counts[turn]))
            if after:
                free[number % 2].record(main)
            number += 1
        found = counts.get()
        yield float((found * np.arange(1, bins + 1) ** 2).sum()) + float(found[:, -1].max())


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "roads": roads,
    "anomaly": anomaly,
    "moderate": moderate,
    "mixer": mixer,
    "hologram": hologram,
    "reads": reads,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
