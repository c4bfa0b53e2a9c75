"""A tenth set of programs for the closed loop of advise, in PyTorch.

``python benchmarks/advise/tenth.py NAME --form before|after`` runs one. The CUDA C++ ones are in
tenth.cu. They, `CHANGES` and `TEMPTING` were written blind: without a look at how `advise` works,
or at what it said of other sets, and without a GPU. Times in comments are guesses. "keep" stands
for data that stay on the GPU, in place of being sent anew.

=========  =========================================================  ==========================
name       before                                                     after
=========  =========================================================  ==========================
lora       each request's adapter, 16 small matrices by `.cuda()`,    sent once, when first
           though a dozen of them come again and again                needed
hops       a sampled graph's 26 arrays of indices, each by `.cuda()`  in one pinned buffer, by
                                                                      one copy
radiance   rays of each chunk by `.cuda()`, colours by `.cpu()`       both by pinned memory, one
                                                                      wait for a picture
segment    batches of unlike sizes stacked into pageable memory,      pinned, the next one sent
           then sent                                                  meanwhile
speech     a frame up and a symbol down, on which depends what        both by pinned memory: no
           follows, around hundreds of short kernels                  gain is expected
=========  =========================================================  ==========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import numpy as np
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # The same bytes come again with every request for the same adapter. Pinned they would still
    # take 128 calls that wait. Needed are a request's words, and the answers once a step.
    "lora": ({"keep"},),
    # Calls of 16 KiB cost far more than their bytes. All indices are needed, as each batch is
    # another; the copies of a batch have nothing between them.
    "hops": ({"pin", "batch"}, {"batch"}),
    # Rays and colours are all needed. Pageable memory is slow both ways, and each `.cpu()` waits
    # for its chunk, so that the GPU idles while the host sends the next one's rays.
    "radiance": ({"pin", "async"},),
    # The copy of a batch waits for the kernels of the last one, and comes from pageable memory.
    # All pictures are needed: they are drawn at random from many.
    "segment": ({"pin", "prefetch"}, {"pin", "async", "prefetch"}),
    # The host launches kernels for longer than the GPU runs them, and can launch none before it
    # knows the symbol. What is copied, 320 bytes up and 8 down, takes a hundredth of a frame.
    "speech": (),
    # Pageable both ways, so that copies take longer than kernels; and one run after the other.
    "extsort": ({"pin", "async", "streams"}, {"pin", "streams"}, {"pin", "prefetch"}),
    # The link brings the same matrix for each product, which is pinned already.
    "krylov": ({"keep"},),
    # All is pinned and asynchronous, on two streams; the host waits for each shot's kernel before
    # it sends the next shot.
    "seismic": ({"streams"}, {"prefetch"}),
    # 80 copies of rows to pageable memory, each of which waits; read after the last one.
    "nv12": ({"pin", "async"},),
    # Three waits of eight bytes after each 20 µs of kernels; read at the end of a step.
    "plasma": ({"defer"}, {"batch", "defer"}),
    # Four bytes, on which the next trial depends, after kernels of milliseconds.
    "adaptive": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"speech": {"pin", "async"}, "adaptive": {"pin"}}
IN_CUDA = ("extsort", "krylov", "seismic", "nv12", "plasma", "adaptive")
IN_PYTORCH = ("lora", "hops", "radiance", "segment", "speech")


def lora(after: bool) -> Iterator[float]:
    """Answers eight requests a step, each with the adapter of who asks, of a dozen."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    layers, width, rank, length, words, tenants, in_step = 8, 2048, 32, 32, 8192, 12, 8

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return (torch.randn(rows, columns) / rows**0.5).half()

    known = matrix(words, width).cuda() * words**0.5
    shared = [matrix(width, width).cuda() for _ in range(layers)]
    adapters = [
        [(matrix(width, rank), matrix(rank, width)) for _ in range(layers)] for _ in range(tenants)
    ]

    def sent(tenant: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(down.cuda(), up.cuda()) for down, up in adapters[tenant]]

    of_tenant = cache(sent) if after else sent

    @torch.inference_mode()
    def answered(tenant: int, prompt: torch.Tensor) -> torch.Tensor:
        state = known[prompt.cuda()]
        for weight, (down, up) in zip(shared, of_tenant(tenant), strict=True):
            state = torch.tanh(state @ weight + (state @ down) @ up) + state / 2
        return state.float().mean(0).argmax()

    random = np.random.default_rng(0)
    often = 1 / np.arange(1, tenants + 1)  # some ask more often than others
    while True:
        answers = []
        for tenant in random.choice(tenants, in_step, p=often / often.sum()).tolist():
            prompt = torch.from_numpy(random.integers(0, words, length))
            answers.append(answered(tenant, prompt))
        yield float(sum(torch.stack(answers).tolist()))


def hops(after: bool) -> Iterator[float]:
    """Finds classes of nodes by those up to two hops away, for eight batches of 256."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    nodes, kinds, most, targets, width, classes, in_step = 200_000, 4, 8, 256, 64, 16, 8
    random = np.random.default_rng(0)
    near = [random.integers(0, nodes, (nodes, most)) for _ in range(kinds)]
    ages = [random.integers(1, 4, (nodes, most)) for _ in range(kinds)]
    present = [random.random((nodes, most)) < 0.5 for _ in range(kinds)]
    labels = random.integers(0, classes, nodes)
    # Small whole numbers, whose sums are the same in any order.
    features = torch.randint(-4, 5, (nodes, width), device="cuda").float()
    head = torch.nn.Linear(kinds * width, classes).cuda()
    buffers = [torch.empty(1 << 17, dtype=torch.int64) for _ in range(in_step)]
    if after:
        buffers = [buffer.pin_memory() for buffer in buffers]

    def around(kind: int, middle: np.ndarray) -> list[np.ndarray]:
        """Return the nodes next to some, where the middle one of each is, and how old the edge."""
        there = present[kind][middle]
        return [near[kind][middle][there], there.nonzero()[0], ages[kind][middle][there]]

    def sampled() -> list[np.ndarray]:
        """Return some nodes, their labels, and the edges of each kind, one and two hops away."""
        middle = random.integers(0, nodes, targets)
        arrays = [middle, labels[middle]]
        for kind in range(kinds):
            once = around(kind, middle)
            arrays += once + around(kind, once[0])
        return arrays

    def sent(arrays: list[np.ndarray], buffer: torch.Tensor) -> list[torch.Tensor]:
        if not after:
            return [torch.from_numpy(array).cuda() for array in arrays]
        lengths = [len(array) for array in arrays]
        packed = buffer[: sum(lengths)]
        np.concatenate(arrays, out=packed.numpy())
        return list(packed.to("cuda", non_blocking=True).split(lengths))

    def summed(
        count: int, rows: torch.Tensor, places: torch.Tensor, age: torch.Tensor
    ) -> torch.Tensor:
        found = torch.zeros(count, width, device="cuda")
        return found.index_add_(0, places, rows * age[:, None])

    @torch.inference_mode()
    def loss_of(arrays: list[torch.Tensor]) -> torch.Tensor:
        own, label, *edges = arrays
        found = []
        for kind in range(kinds):
            one, to_own, age, two, to_one, other_age = edges[6 * kind : 6 * kind + 6]
            rows = features[one] + summed(len(one), features[two], to_one, other_age)
            found.append(features[own] + summed(targets, rows, to_own, age))
        return torch.nn.functional.cross_entropy(head(torch.cat(found, 1) / 64), label)

    while True:
        losses = [loss_of(sent(sampled(), buffer)) for buffer in buffers]
        yield float(sum(torch.stack(losses).tolist()))  # no buffer is in use after this


def radiance(after: bool) -> Iterator[float]:
    """Draws a scene by 256 Ki rays, in chunks, from a place that moves on with each picture."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    side, chunk, samples, width, results = 512, 1 << 15, 16, 64, 8
    count = side * side
    net = torch.nn.Sequential(
        *(torch.nn.Linear(6, width), torch.nn.ReLU()),
        *(torch.nn.Linear(width, width), torch.nn.ReLU()),
        torch.nn.Linear(width, results),
    )
    net = net.half().cuda()
    along = torch.linspace(0.5, 4, samples, device="cuda")[None, :, None]
    pixels = np.linspace(-1, 1, side, dtype=np.float32)
    across, down = np.meshgrid(pixels, pixels)
    straight = np.stack([across.ravel(), down.ravel(), np.ones(count, np.float32)], 1)
    rays = torch.empty(count // chunk, chunk, 6)
    places = torch.empty(count // chunk, chunk, results)
    if after:
        rays, places = rays.pin_memory(), places.pin_memory()

    def look_from(angle: float) -> None:
        """Set where rays start, and their directions."""
        sine, cosine = np.sin(angle), np.cos(angle)
        turn = np.array([[cosine, 0, -sine], [0, 1, 0], [sine, 0, cosine]], dtype=np.float32)
        array = rays.numpy().reshape(count, 6)
        array[:, :3] = (sine, 0.1, -cosine)
        array[:, 3:] = straight @ turn

    @torch.inference_mode()
    def coloured(given: torch.Tensor) -> torch.Tensor:
        start, direction = given[:, None, :3], given[:, None, 3:]
        points = torch.cat([start + along * direction, direction.expand(-1, samples, -1)], 2)
        found = net(points.half()).float()
        share = torch.softmax(found[..., :1], 1)  # of each point along its ray
        return (share * found).sum(1)

    def drawn() -> list[np.ndarray]:
        if not after:
            return [coloured(given.cuda()).cpu().numpy() for given in rays]
        for given, place in zip(rays, places, strict=True):
            place.copy_(coloured(given.to("cuda", non_blocking=True)), non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return list(places.numpy())

    number = 0
    while True:
        look_from(0.01 * number)
        number += 1
        yield float(sum(np.abs(colours[::16]).sum(dtype=np.float64) for colours in drawn()))


def segment(after: bool) -> Iterator[float]:
    """Marks organs in batches of 16, 24 and 32 slices of scans, as they come in."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    known, channels, side, width, organs, sizes = 96, 4, 256, 64, 6, (16, 24, 32)
    shape = channels, side, side
    slices = [torch.randint(-1024, 3072, shape, dtype=torch.int16) for _ in range(known)]
    layers = [torch.nn.Conv2d(channels, width, 5, stride=2, padding=2), torch.nn.ReLU()]
    for _ in range(4):
        layers += [torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Conv2d(width, organs, 1)).cuda()
    random = np.random.default_rng(0)
    copies = torch.cuda.Stream() if after else None
    places = [torch.empty(size, *shape, dtype=torch.int16, pin_memory=after) for size in sizes]
    events = [torch.cuda.Event() for _ in sizes]

    def batch(number: int) -> torch.Tensor:
        """Return slices on the GPU; if ahead, on the stream of copies."""
        turn = number % len(sizes)
        drawn = [slices[one] for one in random.integers(0, known, sizes[turn]).tolist()]
        if copies is None:
            return torch.stack(drawn).cuda()
        events[turn].synchronize()  # the last copy from this place
        torch.stack(drawn, out=places[turn])
        with torch.cuda.stream(copies):
            found = places[turn].to("cuda", non_blocking=True)
            events[turn].record(copies)
        return found

    @torch.inference_mode()
    def marked(given: torch.Tensor) -> torch.Tensor:
        scores = net(given.float() / 1024 - 1)
        found = (scores - scores.mean((2, 3), keepdim=True)).argmax(1)
        return torch.stack([(found == organ).sum() for organ in range(organs)])

    number = 0
    following = batch(0) if after else None
    while True:
        counts = []
        for _ in sizes:
            if copies is None:
                counts.append(marked(batch(number)))
            else:
                torch.cuda.current_stream().wait_stream(copies)
                following.record_stream(torch.cuda.current_stream())
                counts.append(marked(following))
                following = batch(number + 1)
            number += 1
        totals = torch.stack(counts).sum(0).tolist()
        yield float(sum(place * one for place, one in enumerate(totals, 1)))


def speech(after: bool) -> Iterator[float]:
    """Hears six frames of speech a step, and says for each a symbol, or none."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    bands, width, cells, symbols, silent, in_step = 80, 256, 24, 64, 32, 6
    enter = torch.nn.Linear(bands, width).cuda()
    heard = [torch.nn.LSTMCell(width, width).cuda() for _ in range(cells)]
    said = torch.nn.LSTMCell(width, width).cuda()
    known, leave = torch.nn.Embedding(symbols, width).cuda(), torch.nn.Linear(width, symbols).cuda()
    levelled = torch.nn.LayerNorm(width).cuda()
    states = [tuple(torch.zeros(2, 1, width, device="cuda")) for _ in heard]
    own = tuple(torch.zeros(2, 1, width, device="cuda"))
    frame = torch.empty(1, bands, pin_memory=after)
    place = torch.empty(1, dtype=torch.int64, pin_memory=after)

    def symbol_of(scores: torch.Tensor) -> int:
        best = scores.argmax(1)
        if not after:
            return int(best.item())
        place.copy_(best, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return int(place)

    @torch.inference_mode()
    def symbol_in() -> int:
        """Return what is heard in the frame; only a symbol changes what is likely to follow."""
        nonlocal own
        found = enter(frame.to("cuda", non_blocking=after))
        for number, cell in enumerate(heard):
            states[number] = cell(found, states[number])
            found = levelled(found + 4 * states[number][0])
        symbol = symbol_of(leave(torch.tanh(found + 4 * own[0])))
        if symbol >= silent:
            own = said(known.weight[symbol : symbol + 1], own)
        return symbol

    random = np.random.default_rng(0)
    while True:
        total = 0
        for number in range(in_step):
            # The last frame was sent long ago: its symbol is known.
            frame.numpy()[0] = random.standard_normal(bands, dtype=np.float32)
            total += (number + 1) * symbol_in()
        yield float(total)


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "lora": lora,
    "hops": hops,
    "radiance": radiance,
    "segment": segment,
    "speech": speech,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
