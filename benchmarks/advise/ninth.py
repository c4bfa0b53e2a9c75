"""A ninth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/ninth.py NAME --form before|after`` runs one. The CUDA C++ ones are in
ninth.cu. They, `CHANGES` and `TEMPTING` were written blind: without a look at how `advise` works,
or at what it said of other sets, and without a GPU. Times in comments are guesses. "keep" stands
for data that stay on the GPU, in place of being sent anew or of a journey to the host and back.

=========  =========================================================  ==========================
name       before                                                     after
=========  =========================================================  ==========================
sampling   8 MiB of scores of words by `.cpu()` for each word, which  to pinned memory
           the host chooses
layerwise  a graph's nodes, layer by layer: rows gathered on the      nodes stay on the GPU
           host go up, what is found goes down to be gathered next
jagged     lists of unlike lengths, by `repeat_interleave` that       the host gives it their sum,
           reads their sum back, twice for each of 20 features        which it knows
surveil    50 MB of pictures, the same for 16 steps, pinned, sent     sent only when they change:
           ahead, while the GPU works for longer on those before      no gain is expected
coils      maps of 12 coils and a mask by `cupy.asarray` in each      sent once
           half of each iteration, always the same
=========  =========================================================  ==========================
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
    # The host needs all scores before it can choose, so that not to wait is nothing by itself.
    # New memory for each word, at the rate of pageable memory, takes longer than the kernels.
    "sampling": ({"pin"}, {"pin", "async"}),
    # What a layer finds is read by the host only to be gathered for the next one. Features that
    # never change are gathered and sent anew for each step.
    "layerwise": ({"keep"},),
    # The GPU idles after each readback until the next kernels are launched; nothing is read then
    # before the step ends.
    "jagged": ({"defer"},),
    # Copies of 1 ms are hidden by kernels of several.
    "surveil": (),
    # The link brings 20 MiB that are on the GPU already, seven times a step.
    "coils": ({"keep"},),
    # 32 copies whose rows are of four bytes, so that the link brings a row at a time. One copy of
    # all brings the same bytes; a kernel puts them in order.
    "desk": ({"batch"},),
    # Memory is pinned. A part is on the stream of the kernels, and is sent after the host has
    # waited for finds that it does not depend on.
    "fuzzy": ({"prefetch"}, {"streams"}),
    # Eight copies to the same place, which wait; the first seven are overwritten unread. To copy
    # when it is due is to leave the tracers on the GPU until then.
    "tracers": ({"defer"}, {"keep"}),
    # 80 KiB by a copy on the default stream, which waits for both streams and keeps them from
    # being busy at once; all others are pinned and asynchronous.
    "radar": ({"pin", "async"}, {"pin", "streams"}, {"async"}, {"streams"}),
    # Three times a step 256 KiB up and 32 KiB down around a kernel of milliseconds; the host needs
    # the energies to breed the next poses.
    "docking": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"surveil": {"keep"}, "docking": {"pin"}}
IN_CUDA = ("desk", "fuzzy", "tracers", "radar", "docking")
IN_PYTORCH = ("sampling", "layerwise", "jagged", "surveil")


def sampling(after: bool) -> Iterator[float]:
    """Four words a step for each of 64 requests, by the host from scores of 32768 words."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    batch, width, words, layers, in_step = 64, 2048, 32768, 4, 4

    def weights(rows: int, columns: int) -> torch.Tensor:
        found = torch.randn(rows, columns, device="cuda") / rows**0.5
        return found.to(torch.bfloat16)

    known, head = weights(words, width), weights(width, words)
    blocks = [(weights(width, 4 * width), weights(4 * width, width)) for _ in range(layers)]
    chance = np.random.default_rng(0).gumbel(size=(2, batch, words)).astype(np.float32)
    pinned = torch.empty(batch, words, pin_memory=True) if after else None

    def levelled(state: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(state, (width,))

    @torch.no_grad()
    def following(state: torch.Tensor, chosen: np.ndarray) -> torch.Tensor:
        state = levelled(state + known[torch.from_numpy(chosen).cuda()])
        for up, down in blocks:
            state = state + torch.nn.functional.gelu(levelled(state) @ up) @ down
        return state

    def scores_of(state: torch.Tensor) -> np.ndarray:
        scores = (levelled(state) @ head).float()
        if pinned is None:
            return scores.cpu().numpy()
        pinned.copy_(scores, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return pinned.numpy()  # the host is done with it before the next word's scores come

    state = torch.zeros(batch, width, device="cuda", dtype=torch.bfloat16)
    rows, chosen = np.arange(batch), np.arange(batch)
    while True:
        total = 0
        for number in range(in_step):
            state = following(state, chosen)
            scores = scores_of(state)
            scores[rows, chosen] -= 4  # no word is said twice in a row
            scores += chance[number % 2]
            chosen = scores.argmax(axis=1)
            total += int(chosen.sum())
        yield float(total)


def layerwise(after: bool) -> Iterator[float]:
    """Three layers of a graph net, each over all 65536 nodes before the next one starts."""
    import torch

    torch.manual_seed(0)
    nodes, degree, batch, width, hidden, classes = 1 << 16, 8, 1 << 14, 64, 1024, 16
    layers = [
        torch.nn.Sequential(
            torch.nn.Linear(2 * width, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, out)
        ).cuda()
        for out in (width, width, classes)
    ]
    away = torch.randint(-4096, 4096, (nodes, degree))
    near = (torch.arange(nodes)[:, None] + away) % nodes
    parts = []
    for first in range(0, nodes, batch):
        own = torch.arange(first, first + batch)[:, None]
        # Of a node and those near it, what rows they are among those that the part needs.
        needed, places = torch.cat([own, near[first : first + batch]], 1).unique(
            return_inverse=True
        )
        parts.append((needed, places.cuda()))
    where = "cuda" if after else "cpu"
    features = torch.randn(nodes, width).to(where)
    parts = [(needed.to(where), places) for needed, places in parts]

    @torch.inference_mode()
    def classified() -> torch.Tensor:
        rows = features
        for layer in layers:
            found = []
            for needed, places in parts:
                # What is on the GPU already `.cuda()` does not copy.
                gathered = rows[needed].cuda()
                around = gathered[places[:, 1:]].mean(1)
                result = layer(torch.cat([gathered[places[:, 0]], around], 1))
                found.append(result.to(where))
            rows = torch.cat(found)
        return rows.cpu()

    while True:
        with torch.no_grad():
            for layer in layers:
                layer[0].weight.mul_(0.999)  # what was learned since
        found = classified()
        yield float(found.argmax(1).sum()) + float(found.double().square().sum())


def jagged(after: bool) -> Iterator[float]:
    """Ranks 16384 readers' pages by lists of up to 15 things for each of 20 features."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    features, batch, things, width, most = 20, 1 << 14, 100_000, 64, 16
    tables = [torch.randn(things, width, device="cuda") for _ in range(features)]
    readers = torch.randn(batch, width, device="cuda") / 8
    rank = torch.nn.Sequential(
        torch.nn.Linear(features * width, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)
    ).cuda()
    random = np.random.default_rng(0)

    def request() -> tuple[torch.Tensor, list[int]]:
        """Return all lengths, then all things, and how many of them each feature has."""
        lengths = random.integers(0, most, (features, batch))
        sums = lengths.sum(axis=1).tolist()
        listed = random.integers(0, things, sum(sums))
        return torch.from_numpy(np.concatenate([lengths.ravel(), listed])).pin_memory(), sums

    requests = [request() for _ in range(3)]

    @torch.inference_mode()
    def ranked(packed: torch.Tensor, sums: list[int]) -> torch.Tensor:
        given = packed.to("cuda", non_blocking=True)
        lengths, listed = given[: features * batch], given[features * batch :]
        pooled = []
        for table, length, ids, count in zip(
            tables, lengths.view(features, batch), listed.split(sums), sums, strict=True
        ):
            asking = readers.repeat_interleave(length, dim=0, output_size=count if after else None)
            weight = (asking * table[ids]).sum(1).sigmoid()
            starts = length.cumsum(0) - length
            pooled.append(
                torch.nn.functional.embedding_bag(
                    ids, table, starts, mode="sum", per_sample_weights=weight
                )
            )
        return rank(torch.cat(pooled, 1))[:, 0]

    number = 0
    while True:
        found = ranked(*requests[number % len(requests)]).cpu()
        number += 1
        yield float(found.double().square().sum())


def surveil(after: bool) -> Iterator[float]:
    """Looks for what moves before eight cameras, whose pictures rarely change."""
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    cameras, high, wide, width, still = 8, 1080, 1920, 64, 16
    layers = [torch.nn.Conv2d(3, width, 7, stride=4, padding=3), torch.nn.ReLU()]
    for _ in range(5):
        layers += [torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Conv2d(width, 1, 1)).cuda()
    base = torch.randint(0, 256, (cameras, 3, high, wide), dtype=torch.uint8)
    scenes = [base.roll(41 * number, 3).pin_memory() for number in range(3)]
    copies = torch.cuda.Stream()

    def send(number: int, last: torch.Tensor | None) -> torch.Tensor:
        if after and last is not None and number % still:
            return last
        with torch.cuda.stream(copies):
            return scenes[number // still % len(scenes)].to("cuda", non_blocking=True)

    @torch.inference_mode()
    def moving(pictures: torch.Tensor) -> torch.Tensor:
        found = net(pictures.float() / 255)
        return (found > found.mean((2, 3), keepdim=True)).sum((1, 2, 3))

    number = 0
    following = send(0, None)
    while True:
        torch.cuda.current_stream().wait_stream(copies)
        pictures = following
        pictures.record_stream(torch.cuda.current_stream())
        number += 1
        following = send(number, pictures)
        counts = moving(pictures).tolist()
        yield float(sum(place * one for place, one in enumerate(counts, 1)))


def coils(after: bool) -> Iterator[float]:
    """Finds a slice of a body from what twelve coils measured of a part of its frequencies."""
    import cupy
    import numpy as np

    count, side, rounds, slices = 12, 384, 3, 2
    random = np.random.default_rng(0)
    maps = waves(random, count, side)
    maps /= np.sqrt((np.abs(maps) ** 2).sum(axis=0))
    mask = (random.random((side, side)) < 0.3).astype(np.float32)
    measured = [waves(random, count, side) * mask for _ in range(slices)]
    if after:
        maps, mask = cupy.asarray(maps), cupy.asarray(mask)

    # What is on the GPU already `asarray` does not copy.
    def frequencies(image: cupy.ndarray) -> list[cupy.ndarray]:
        return [
            cupy.fft.fft2(cupy.asarray(one) * image, norm="ortho") * cupy.asarray(mask)
            for one in maps
        ]

    def image_of(spectra: list[cupy.ndarray]) -> cupy.ndarray:
        image = cupy.zeros((side, side), dtype=np.complex64)
        for one, spectrum in zip(maps, spectra, strict=True):
            found = cupy.fft.ifft2(spectrum * cupy.asarray(mask), norm="ortho")
            image += cupy.asarray(one).conj() * found
        return image

    number = 0
    while True:
        wanted = list(cupy.asarray(measured[number % slices]))
        image = image_of(wanted)
        for _ in range(rounds):
            found = frequencies(image)
            image -= image_of([one - other for one, other in zip(found, wanted, strict=True)])
        number += 1
        yield float(cupy.abs(image).sum())


def waves(random: np.random.Generator, count: int, side: int) -> np.ndarray:
    """Return random complex fields of single precision."""
    real, imaginary = random.standard_normal((2, count, side, side), dtype="float32")
    return real + 1j * imaginary


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "sampling": sampling,
    "layerwise": layerwise,
    "jagged": jagged,
    "surveil": surveil,
    "coils": coils,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
