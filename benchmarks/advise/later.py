"""Programs of PyTorch and CuPy for the closed loop of advise, written after `advise` was.

``python benchmarks/advise/later.py NAME --form before|after`` runs one. The CUDA C++ ones are in
later.cu. They, `CHANGES` and `TEMPTING` were written without a look at the code of `advise`, or at
what it says of them; nor had they run on a GPU. What a comment here says of time is what their
writer expected.

========  =========================================================  ===========================
name      before                                                     after
========  =========================================================  ===========================
decode    tokens of 8 sequences read back after each one             read at the end of a step
swap      KV cache of the requests whose turn it is, from pageable   pinned, next ones fetched
          memory and back                                            while these compute
rollout   environment of NumPy: states up, actions down              each in new pinned memory:
                                                                     no gain is expected
graph     mini-batches of a graph, of another size each time         staged in pinned buffers
frames    `cupy.asarray`, a filter, `.get()` for each frame          pinned, on three streams
========  =========================================================  ===========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import cupy
    import numpy as np
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    "decode": ({"defer"},),
    # Fetched ahead is asynchronous by itself.
    "swap": ({"pin", "prefetch"}, {"pin", "async", "prefetch"}),
    # The environment needs the actions of now, so that they cannot be left on the GPU; the states
    # are 8 KiB, which take as long from pinned memory.
    "rollout": (),
    # Where the copies come from, or that and that the host does not wait for each of the four.
    "graph": ({"pin"}, {"pin", "async"}),
    # A frame in flight on each of three streams: the next frame goes in while this one is
    # filtered, if a frame is a round; parts on streams, if eight frames are one.
    "frames": ({"pin", "prefetch"}, {"pin", "async", "streams"}, {"pin", "streams"}),
    "solver": ({"defer"},),
    # Its calls are asynchronous before, too, and do not return until the driver has staged.
    "video": ({"pin"}, {"pin", "async"}),
    # Kernels hide all copies; to gather what 64 receivers filled takes the host longer than both.
    "ring": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"rollout": {"pin"}, "ring": {"batch"}}
IN_CUDA = ("solver", "video", "ring")
IN_PYTORCH = ("decode", "swap", "rollout", "graph")


class Decoder:
    """A small decoder of random weights: one token for each sequence, all in fp32."""

    HEADS, SIZE = 8, 64
    WIDTH = HEADS * SIZE

    def __init__(self, layers: int, vocabulary: int) -> None:
        import torch

        torch.manual_seed(0)
        width = self.WIDTH
        self.embedding = torch.randn(vocabulary, width, device="cuda") / width**0.5
        shapes = ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width))
        self.layers = [
            [torch.randn(shape, device="cuda") / shape[1] ** 0.5 for shape in shapes]
            for _ in range(layers)
        ]

    def next_tokens(
        self, cache: torch.Tensor, tokens: torch.Tensor, position: int, seen: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens that follow and their logits; keys and values go into the cache.

        `cache` is (layers, 2, batch, HEADS, length, SIZE), of which `seen` positions are attended.
        """
        from torch.nn import functional

        batch, width = len(tokens), self.WIDTH
        hidden = self.embedding[tokens]
        for (queries, out, up, down), (keys, values) in zip(self.layers, cache, strict=True):
            mixed = functional.linear(functional.layer_norm(hidden, (width,)), queries)
            query, key, value = mixed.view(batch, 3, self.HEADS, 1, self.SIZE).unbind(1)
            keys[:, :, position : position + 1] = key
            values[:, :, position : position + 1] = value
            found = functional.scaled_dot_product_attention(
                query, keys[:, :, :seen], values[:, :, :seen]
            )
            hidden = hidden + functional.linear(found.reshape(batch, width), out)
            inner = functional.linear(functional.layer_norm(hidden, (width,)), up)
            hidden = hidden + functional.linear(functional.gelu(inner), down)
        logits = functional.linear(functional.layer_norm(hidden, (width,)), self.embedding)
        best, found = logits.max(1)
        return found, best


def decode(after: bool) -> Iterator[float]:
    """A step answers 8 prompts with 32 tokens each, and stops where all answers have ended."""
    import torch

    batch, length, end = 8, 32, 0
    decoder = Decoder(layers=4, vocabulary=32_000)
    cache = torch.zeros(4, 2, batch, decoder.HEADS, length, decoder.SIZE, device="cuda")
    prompts = torch.arange(1, batch + 1, device="cuda")
    while True:
        tokens, rows, said = prompts, [], []
        ended: set[int] = set()
        for position in range(length):
            with torch.inference_mode():
                tokens, _ = decoder.next_tokens(cache, tokens, position, position + 1)
            if after:
                rows.append(tokens)
                continue
            said.append(tokens.tolist())
            ended.update(number for number, token in enumerate(said[-1]) if token == end)
            if len(ended) == batch:
                break
        if after:
            said = torch.stack(rows).tolist()
        answers = zip(*said, strict=True)
        yield float(sum(in_places(takewhile(lambda token: token != end, row)) for row in answers))


def in_places(tokens: Iterable[int]) -> int:
    """Return the sum of tokens, each times its place."""
    return sum(place * token for place, token in enumerate(tokens, 1))


def swap(after: bool) -> Iterator[float]:
    """A token for one of four groups of eight requests; 64 MiB of cache come and go with each."""
    import torch

    layers, batch, length = 4, 8, 512
    decoder = Decoder(layers, vocabulary=8_000)
    shape = (layers, 2, batch, decoder.HEADS, length, decoder.SIZE)
    generator = torch.Generator().manual_seed(1)
    hosts = [torch.empty(shape, pin_memory=after) for _ in range(4)]
    for host in hosts:
        host.normal_(generator=generator)
    tokens = [torch.arange(1, batch + 1, device="cuda") for _ in hosts]
    slots = [torch.empty(shape, device="cuda") for _ in range(3)] if after else []
    arrived, left = ([torch.cuda.Event() for _ in range(3)] for _ in range(2))
    arriving, leaving = torch.cuda.Stream(), torch.cuda.Stream()

    def fetch(number: int) -> None:
        slot = number % 3
        arriving.wait_event(left[slot])  # of three steps ago; the group's own left before that
        with torch.cuda.stream(arriving):
            slots[slot].copy_(hosts[number % 4], non_blocking=True)
            arrived[slot].record()

    def offload(number: int) -> None:
        slot = number % 3
        leaving.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(leaving):
            hosts[number % 4].copy_(slots[slot], non_blocking=True)
            left[slot].record()

    if after:
        fetch(0)
    number = 0
    while True:
        group, position = number % 4, number // 4 % length
        if after:
            fetch(number + 1)
            torch.cuda.current_stream().wait_event(arrived[number % 3])
            cache = slots[number % 3]
        else:
            cache = hosts[group].cuda()
        with torch.inference_mode():
            tokens[group], best = decoder.next_tokens(cache, tokens[group], position, length)
            said = torch.stack([tokens[group], best]).tolist()  # goes to those who wait for it
        if after:
            offload(number)
        else:
            hosts[group].copy_(cache)
        number += 1
        yield float(sum(said[1]))


def rollout(after: bool) -> Iterator[float]:
    """Twenty moves of 128 chains of pendulums by a policy, which then learns from them."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    policy = torch.nn.Sequential(
        torch.nn.Linear(16, 256),
        torch.nn.Tanh(),
        torch.nn.Linear(256, 256),
        torch.nn.Tanh(),
        torch.nn.Linear(256, 4),
    ).cuda()
    optimiser = torch.optim.SGD(policy.parameters(), lr=1e-3)
    start = np.random.default_rng(0).standard_normal((128, 16), dtype=np.float32) / 4

    def upload(array: np.ndarray) -> torch.Tensor:
        host = torch.from_numpy(array)
        return host.pin_memory().to("cuda", non_blocking=True) if after else host.to("cuda")

    while True:
        states, observed, chosen, rewards = start, [], [], []
        for _ in range(20):
            observed.append(upload(states))
            with torch.inference_mode():
                actions = policy(observed[-1]).argmax(1).cpu().numpy()
            chosen.append(actions)
            states, reward = moved(states, actions)
            rewards.append(reward)
        logits = policy(torch.cat(observed))
        picked = torch.nn.functional.cross_entropy(
            logits, upload(np.concatenate(chosen)), reduction="none"
        )
        gains = np.concatenate(rewards)
        loss = (picked * upload(gains - gains.mean())).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        yield float(gains.sum(dtype=np.float64))


def moved(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the states (128, 16), angles before speeds, after 40 small moves, and the rewards."""
    import numpy as np

    angles, speeds = states[:, :8].copy(), states[:, 8:].copy()
    pushes = ((actions - 1.5) / 2).astype(np.float32)
    for _ in range(40):
        pulls = -np.sin(angles) - np.float32(0.1) * speeds
        pulls[:, 1:] += angles[:, :-1] - angles[:, 1:]
        pulls[:, :-1] += angles[:, 1:] - angles[:, :-1]
        pulls[:, 0] += pushes
        speeds += np.float32(0.005) * pulls
        angles += np.float32(0.005) * speeds
    return np.concatenate([angles, speeds], axis=1), np.cos(angles).mean(axis=1)


def graph(after: bool) -> Iterator[float]:
    """A graph neural network of two layers; features and neighbours lie on the CPU."""
    import torch

    torch.manual_seed(0)
    nodes, width, degree, fan_out, most = 200_000, 128, 10, 5, 3072
    features = torch.randn(nodes, width)
    neighbours = torch.randint(0, nodes, (nodes, degree))
    labels = torch.randint(0, 32, (nodes,))
    inner = torch.nn.Linear(2 * width, 256).cuda()
    outer = torch.nn.Linear(512, 32).cuda()
    optimiser = torch.optim.SGD([*inner.parameters(), *outer.parameters()], lr=1e-4)
    staged = {}
    if after:
        nearest = most * (1 + fan_out)
        staged = {
            "features": torch.empty(nearest * (1 + fan_out), width, pin_memory=True),
            "far": torch.empty(nearest, 1 + fan_out, dtype=torch.long, pin_memory=True),
            "near": torch.empty(most, 1 + fan_out, dtype=torch.long, pin_memory=True),
            "labels": torch.empty(most, dtype=torch.long, pin_memory=True),
        }

    def sampled(wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        picks = torch.randint(0, degree, (len(wanted), fan_out))
        around = neighbours[wanted].gather(1, picks)
        return torch.unique(torch.cat([wanted[:, None], around], 1), return_inverse=True)

    def upload(name: str, table: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        if not after:
            return (table if rows is None else table[rows]).to("cuda")
        host = staged[name][: len(table if rows is None else rows)]
        if rows is None:
            host.copy_(table)
        else:
            torch.index_select(table, 0, rows, out=host)
        return host.to("cuda", non_blocking=True)

    def gathered(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return torch.cat([values[places[:, 0]], values[places[:, 1:]].mean(1)], 1)

    while True:
        seeds = torch.randint(0, nodes, (int(torch.randint(1024, most + 1, ())),))
        around, near = sampled(seeds)
        farther, far = sampled(around)
        inputs = upload("features", features, farther)
        places = upload("far", far), upload("near", near)
        classes = upload("labels", labels, seeds)
        hidden = torch.relu(inner(gathered(inputs, places[0])))
        loss = torch.nn.functional.cross_entropy(outer(gathered(hidden, places[1])), classes)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        yield loss.item()


def frames(after: bool) -> Iterator[float]:
    """Eight frames of 1080 x 1920 pixels of three bytes, made sharper; some of each are added."""
    import cupy
    import cupyx
    import numpy as np

    shape, count = (1080, 1920, 3), 8
    stack = np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8)
    if not after:
        while True:
            results = [sharper(cupy.asarray(frame)).get() for frame in stack]
            yield float(sum(int(result[::8, ::8].sum(dtype=np.int64)) for result in results))
    pinned = [cupyx.empty_pinned(shape, np.uint8) for _ in stack]
    for host, frame in zip(pinned, stack, strict=True):  # the reader of the frames fills them
        host[:] = frame
    results = [cupyx.empty_pinned(shape, np.uint8) for _ in stack]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    inputs = [cupy.empty(shape, np.uint8) for _ in streams]
    while True:
        for number, host in enumerate(pinned):
            stream, given = streams[number % 3], inputs[number % 3]
            with stream:
                given.set(host, stream=stream)
                sharper(given).get(stream=stream, out=results[number], blocking=False)
        for stream in streams:
            stream.synchronize()
        yield float(sum(int(result[::8, ::8].sum(dtype=np.int64)) for result in results))


def sharper(frame: cupy.ndarray) -> cupy.ndarray:
    """Return a frame (height, width, 3) less half of what a blur of 5 x 5 pixels leaves of it."""
    import cupy

    pixels = frame.astype(cupy.float32)
    blurred = pixels.copy()
    for _ in range(2):  # along the height, then along the width
        inner = 6 * blurred[2:-2] + 4 * (blurred[1:-3] + blurred[3:-1])
        blurred[2:-2] = (inner + blurred[:-4] + blurred[4:]) / 16
        blurred = blurred.swapaxes(0, 1)
    return cupy.clip(1.5 * pixels - 0.5 * blurred, 0, 255).astype(cupy.uint8)


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "decode": decode,
    "swap": swap,
    "rollout": rollout,
    "graph": graph,
    "frames": frames,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
