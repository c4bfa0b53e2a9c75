"""A fifth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/fresh.py NAME --form before|after`` runs one. The CUDA C++ ones are in
fresh.cu. They, `CHANGES` and `TEMPTING` were written without a look at the code of `advise`, or at
what it says of them; nor had they run on a GPU. What a comment here says of time is what
their writer expected.

=========  ========================================================  ============================
name       before                                                    after
=========  ========================================================  ============================
evaluate   loss, hits and classes of each batch read back after it   read at the end of a step
denoise    image of each pass copied into pageable memory            into pinned memory
points     clouds of four arrays, pageable, for a training step      pinned, next ones sent while
                                                                     these are learnt from
language   tokens of another length each step, pageable, for a       pinned, sent ahead: no gain
           training step that takes the GPU long                     is expected
beam       candidates of each token read back, choice sent           both by pinned memory: no
                                                                     gain is expected
snapshots  of oscillators, each by a `.get` that waits               by one that does not
=========  ========================================================  ============================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # Nothing looks at what is read back before the last batch.
    "evaluate": ({"defer"},),
    # Most is gained by where an image goes; that the host launches the next pass meanwhile is
    # little.
    "denoise": ({"pin"}, {"pin", "async"}),
    # Sent ahead is asynchronous by itself.
    "points": ({"pin", "prefetch"}, {"pin", "async", "prefetch"}),
    # The GPU works for milliseconds on tokens that take microseconds.
    "language": (),
    # The host chooses from the candidates before the next token, and most of a step is the time
    # that it takes to launch kernels.
    "beam": (),
    # Memory is pinned already. The next kernel writes where a snapshot is copied from, so that
    # neither another stream nor a copy at the end would do.
    "snapshots": ({"async"},),
    # What the buffer of all columns is made of matters less than their number.
    "columns": ({"pin", "batch"}, {"batch"}),
    # Memory is pinned and the calls are asynchronous already. Chunks on streams, or the next one
    # sent ahead by another stream, go in while those before are filtered and go out.
    "signal": ({"streams"}, {"prefetch"}),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"language": {"pin", "prefetch"}, "beam": {"pin"}}
IN_CUDA = ("columns", "signal")
IN_PYTORCH = ("evaluate", "denoise", "points", "language", "beam")


def evaluate(after: bool) -> Iterator[float]:
    """Evaluates a classifier on 16 batches of 256 small images, which lie on the GPU."""
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    batches, batch, kinds = 16, 256, 10
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 128, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(128, 256, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(256, kinds),
    ).cuda()
    images = torch.randn(batches, batch, 3, 32, 32, device="cuda")
    labels = torch.randint(0, kinds, (batches, batch), device="cuda")
    while True:
        losses, hits, classes = [], [], []
        for inputs, wanted in zip(images, labels, strict=True):
            with torch.no_grad():
                logits = net(inputs)
                loss = functional.cross_entropy(logits, wanted)
                found = logits.argmax(1)
                right = (found == wanted).sum()
            losses.append(loss if after else loss.item())
            hits.append(right if after else right.item())
            classes.append(found if after else found.cpu())
        if after:
            losses, hits = torch.stack(losses).tolist(), torch.stack(hits).tolist()
        predicted = torch.cat(classes).cpu()
        yield sum(losses) + sum(hits) + float(predicted.bincount(minlength=kinds).max())


def denoise(after: bool) -> Iterator[float]:
    """Takes noise from 16 images in eight passes, after each of which 12 MiB go to the host."""
    import torch

    torch.manual_seed(0)
    passes, images, size = 8, 16, 256
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.SiLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1),
        torch.nn.SiLU(),
        torch.nn.Conv2d(32, 3, 3, padding=1),
    ).cuda()
    noise = torch.randn(images, 3, size, size, device="cuda")
    history = torch.zeros((passes, images, 3, size, size), pin_memory=after)
    while True:
        image = noise
        for number in range(passes):
            with torch.no_grad():
                image = image - 0.1 * net(image)
            history[number].copy_(image)
        yield float(history[:, ::4, :, ::64, ::64].double().sum())


def points(after: bool) -> Iterator[float]:
    """Learns the classes of the points of 16 clouds a step; 20 MiB in four arrays."""
    import torch

    torch.manual_seed(0)
    clouds, kinds, width = 16, 20, 64
    each = torch.nn.Sequential(
        torch.nn.Linear(7, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
    ).cuda()
    head = torch.nn.Linear(width, kinds).cuda()
    optimiser = torch.optim.SGD([*each.parameters(), *head.parameters()], lr=1e-6)
    batches = [
        (
            torch.randn(clouds, count, 3),  # places
            torch.randint(0, 256, (clouds, count, 3), dtype=torch.uint8),  # colours
            torch.rand(clouds, count, 1),  # intensities
            torch.randint(0, kinds, (clouds, count)),  # classes
        )
        for count in (48_000, 44_000, 48_000, 52_000)
    ]
    if after:
        batches = [tuple(array.pin_memory() for array in arrays) for arrays in batches]
    ahead = torch.cuda.Stream()

    def upload(number: int) -> list[torch.Tensor]:
        arrays = batches[number % len(batches)]
        if not after:
            return [array.cuda() for array in arrays]
        with torch.cuda.stream(ahead):
            return [array.to("cuda", non_blocking=True) for array in arrays]

    following = upload(0) if after else None
    number = 0
    while True:
        if following is None:
            arrays = upload(number)
        else:
            torch.cuda.current_stream().wait_stream(ahead)
            arrays = following
            for array in arrays:
                array.record_stream(torch.cuda.current_stream())
            following = upload(number + 1)
        places, colours, intensities, wanted = arrays
        hidden = each(torch.cat([places, colours.float() / 255, intensities], dim=2))
        logits = head(hidden + hidden.amax(1, keepdim=True))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        number += 1
        yield loss.item()


def language(after: bool) -> Iterator[float]:
    """Learns to fill gaps in eight texts a step: at most 80 KiB of tokens, given and wanted."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # its gradients differ from run to run
    texts, vocabulary, width, gap = 8, 8192, 768, 0
    layers = [
        torch.nn.TransformerEncoderLayer(width, 12, 4 * width, dropout=0.0, batch_first=True)
        for _ in range(3)
    ]
    net = torch.nn.Sequential(
        torch.nn.Embedding(vocabulary, width), *layers, torch.nn.Linear(width, vocabulary)
    ).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-6)
    batches = []
    for length in (512, 384, 640, 512):
        tokens = torch.randint(1, vocabulary, (texts, length))
        hidden = torch.rand(texts, length) < 0.15
        batches.append((tokens.masked_fill(hidden, gap), tokens.masked_fill(~hidden, -100)))
    if after:
        batches = [(given.pin_memory(), wanted.pin_memory()) for given, wanted in batches]
    ahead = torch.cuda.Stream()

    def upload(number: int) -> list[torch.Tensor]:
        pair = batches[number % len(batches)]
        if not after:
            return [one.cuda() for one in pair]
        with torch.cuda.stream(ahead):
            return [one.to("cuda", non_blocking=True) for one in pair]

    following = upload(0) if after else None
    number = 0
    while True:
        if following is None:
            pair = upload(number)
        else:
            torch.cuda.current_stream().wait_stream(ahead)
            pair = following
            for one in pair:
                one.record_stream(torch.cuda.current_stream())
            following = upload(number + 1)
        given, wanted = pair
        logits = net(given)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        number += 1
        yield loss.item()


def beam(after: bool) -> Iterator[float]:
    """Translates 16 sentences by 24 tokens each; the host drops the candidates that end."""
    import torch

    torch.manual_seed(0)
    sentences, words, beams, length = 16, 40, 4, 24
    vocabulary, width, end = 8000, 512, 0
    embedding = torch.nn.Embedding(vocabulary, width).cuda()
    cells = [torch.nn.GRUCell(width, width).cuda() for _ in range(3)]
    project = torch.nn.Linear(width, vocabulary).cuda()
    with torch.no_grad():
        project.bias[end] = 1.5  # so that some do end
    encoded = torch.randn(sentences, words, width, device="cuda")
    first = torch.arange(sentences, device="cuda").unsqueeze(1) * beams
    alone = torch.full((sentences, beams), -1e9, device="cuda")  # all beams start as the first
    alone[:, 0] = 0
    candidates = torch.empty(sentences, 2 * beams, dtype=torch.long, pin_memory=after)
    choice = torch.empty(sentences, beams, dtype=torch.long, pin_memory=after)

    def read(places: torch.Tensor) -> list[list[int]]:
        return candidates.copy_(places).tolist() if after else places.tolist()

    def send(columns: list[list[int]]) -> torch.Tensor:
        chosen = torch.tensor(columns)
        return choice.copy_(chosen).cuda() if after else chosen.cuda()

    @torch.no_grad()
    def translated() -> float:
        tokens = torch.ones(sentences * beams, dtype=torch.long, device="cuda")
        states = [torch.zeros(sentences * beams, width, device="cuda") for _ in cells]
        scores, ended = alone, 0
        for _ in range(length):
            found = embedding(tokens)
            for number, cell in enumerate(cells):
                found = states[number] = cell(found, states[number])
            queries = found.view(sentences, beams, width)
            weights = torch.bmm(queries, encoded.transpose(1, 2)).softmax(2)
            context = torch.bmm(weights, encoded).view(-1, width)
            logits = project(found + context).log_softmax(1).view(sentences, beams, vocabulary)
            totals = (scores.unsqueeze(2) + logits).view(sentences, -1)
            best = totals.topk(2 * beams)  # of each beam one may end
            columns = []
            for places in read(best.indices):
                going = [at for at, place in enumerate(places) if place % vocabulary != end]
                ended += len(places) - len(going)
                columns.append(going[:beams])
            chosen = send(columns)
            scores = best.values.gather(1, chosen)
            places = best.indices.gather(1, chosen)
            tokens = (places % vocabulary).flatten()
            parents = (places // vocabulary + first).flatten()
            states = [state[parents] for state in states]
        return ended + float(scores.sum())

    while True:
        yield translated()


OSCILLATE = """
extern "C" __global__ void oscillate(float* x, float* y, float time, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float speed = y[i] + time * ((1.f - x[i] * x[i]) * y[i] - x[i]);
  x[i] += time * speed;
  y[i] = speed;
}
"""


def snapshots(after: bool) -> Iterator[float]:
    """Follows 128 Ki oscillators by 40 snapshots of 512 KiB, one each eight steps of time."""
    import cupy
    import cupyx
    import numpy as np

    count, taken, between, threads = 1 << 17, 40, 8, 256
    oscillate = cupy.RawKernel(OSCILLATE, "oscillate")
    x = cupy.asarray(np.linspace(-2, 2, count, dtype=np.float32))
    y = cupy.zeros(count, dtype=np.float32)
    hosts = [cupyx.empty_pinned(count, np.float32) for _ in range(taken)]
    arguments = (x, y, np.float32(0.01), np.int32(count))
    while True:
        for host in hosts:
            for _ in range(between):
                oscillate((count // threads,), (threads,), arguments)
            x.get(out=host, blocking=not after)
        if after:
            cupy.cuda.get_current_stream().synchronize()
        yield float(sum(np.square(host[::1009], dtype=np.float64).sum() for host in hosts))


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "evaluate": evaluate,
    "denoise": denoise,
    "points": points,
    "language": language,
    "beam": beam,
    "snapshots": snapshots,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
