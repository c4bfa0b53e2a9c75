"""A thirteenth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/thirteenth.py NAME --form before|after`` runs one. The CUDA C++ ones are
in thirteenth.cu. They, `CHANGES` and `TEMPTING` were written blind: without a look at how `advise`
works, or at what it said of other sets, and without a GPU. Times in comments are guesses. "keep"
stands for data that stay on the GPU, in place of being sent anew.

==========  ==========================================================  ==========================
name        before                                                      after
==========  ==========================================================  ==========================
paged       six lists by `torch.tensor(..., device="cuda")` for each    all by one copy from
            token, as pages of a cache are given to texts               pinned memory
curriculum  what each example of a batch lost by `.cpu()`, though the   once for all batches
            host chooses by it after 24 batches only
federated   weights of six clients up from pageable memory, and a new   from and to pinned memory
            model down to it
stereo      `non_blocking=True` from pageable memory, after the host    pinned, and the next ones
            has put two pictures there                                  sent meanwhile
lbfgs       two numbers are read for each try of a search along a       to pinned memory: no gain
            line, which says what the next one is                       is expected
gnss        codes of 32 satellites are sent for each millisecond        sent once
==========  ==========================================================  ==========================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import cupy
    import numpy as np
    import torch

    Pair = tuple[torch.Tensor, torch.Tensor]

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # Six copies of 256 bytes to 4 KB for each token, from memory that Python has just filled, each
    # of which the host waits for; all are ready at the same time.
    "paged": ({"batch"}, {"pin", "batch"}),
    # 2 KB are read after each batch, so that the GPU idles until the next one is launched.
    "curriculum": ({"defer"}, {"batch", "defer"}),
    # 63 MB up and 10 MB down through pageable memory, which is there all the time and can be
    # pinned; kernels are few.
    "federated": ({"pin"}, {"pin", "async"}),
    # 5.5 MB for each pair, after which the host waits for what it looks like. To pin them alone
    # makes the copy faster; to decode and send the next pair meanwhile hides both.
    "stereo": ({"pin", "prefetch"}, {"pin", "async", "prefetch"}),
    # 8 bytes after each try, of some 0.4 ms; what is tried next depends on them.
    "lbfgs": (),
    # 4 MB in 32 copies, a third of the time, which never change.
    "gnss": ({"keep"},),
    # 2 MiB from pageable memory, 12 times without a change, around kernels of some 30 µs.
    "icp": ({"keep"},),
    # 4.5 MiB to pageable memory before the host works on them; a copy, the host's work and a kernel
    # take turns.
    "assembly": ({"pin", "async", "streams"}, {"pin", "streams"}, {"pin", "async"}),
    # 256 bytes after each turn, for a chart at the end, before 4 bytes that the host needs at once.
    "tsunami": ({"defer"}, {"batch", "defer"}),
    # All is pinned and asynchronous, but in one stream: 160 MiB down and up take as long as the
    # kernels, before and after which they come.
    "adjoint": ({"streams"}, {"prefetch"}, {"prefetch", "streams"}, {"async", "streams"}),
    # Small copies in one stream while a kernel of the other one fills the GPU.
    "raymarch": (),
    # 528 bytes up and 512 down around kernels of some 40 µs; the host needs each of them to say
    # what comes next.
    "mppi": ({"mapped"}, {"pin", "mapped"}),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"lbfgs": {"pin"}, "raymarch": {"batch"}}
IN_CUDA = ("icp", "assembly", "tsunami", "adjoint", "raymarch", "mppi")
IN_PYTORCH = ("paged", "curriculum", "federated", "stereo", "lbfgs")


class Texts:
    """Texts that grow by a token at a time, whose keys and values lie in pages of a cache."""

    def __init__(self, texts: int, page: int, pages_each: int, words: int):
        import numpy as np

        self.page, self.pages_each, self.words = page, pages_each, words
        self.random = np.random.default_rng(0)
        self.free = list(range(texts * pages_each))
        self.pages: list[list[int]] = [[] for _ in range(texts)]
        self.tokens = [self.any_token() for _ in range(texts)]
        self.recent = [deque([token] * 8, maxlen=8) for token in self.tokens]
        self.lengths = self.random.integers(0, page, texts).tolist()  # what is in the cache
        self.limits = [self.limit() for _ in range(texts)]
        for pages in self.pages:
            pages.append(self.free.pop())

    def any_token(self) -> int:
        return int(self.random.integers(self.words))

    def limit(self) -> int:
        """Return how long a text becomes."""
        return int(self.random.integers(64, self.page * self.pages_each))

    def lists(self) -> list[list[int]]:
        """Return what a step of the model needs to know of all texts, once each has a page.

        Their last tokens, where these are in them, and in the cache; the pages of all texts, one
        after the other; the tokens not to come again; and temperatures, in thousandths.
        """
        for pages, length in zip(self.pages, self.lengths, strict=True):
            if length == len(pages) * self.page:
                pages.append(self.free.pop())
        slots = [
            pages[-1] * self.page + length % self.page
            for pages, length in zip(self.pages, self.lengths, strict=True)
        ]
        tables = [pages + [0] * (self.pages_each - len(pages)) for pages in self.pages]
        warm = [700 + 5 * len(pages) for pages in self.pages]
        flat = chain.from_iterable
        return [self.tokens, self.lengths, slots, [*flat(tables)], [*flat(self.recent)], warm]

    def grow(self, tokens: list[int]) -> None:
        """Add a token to each text; those long enough make room for new ones."""
        self.tokens = tokens
        self.lengths = [length + 1 for length in self.lengths]
        for number, token in enumerate(tokens):
            self.recent[number].append(token)
            if self.lengths[number] >= self.limits[number]:
                self.free.extend(self.pages[number])
                self.pages[number] = [self.free.pop()]
                self.lengths[number], self.limits[number] = 0, self.limit()
                self.tokens[number] = self.any_token()


def paged(after: bool) -> Iterator[float]:
    """Continues 32 texts by a small language model, whose keys and values lie in pages."""
    import torch
    from torch.nn.functional import gelu, scaled_dot_product_attention

    torch.manual_seed(0)
    texts, page, pages_each, words, in_step = 32, 16, 16, 4096, 16
    width, heads, layers = 512, 8, 2
    longest, deep = page * pages_each, width // heads

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return (torch.randn(rows, columns) / rows**0.5).cuda()

    words_in, places_in, words_out = (
        matrix(words, width),
        matrix(longest, width),
        matrix(width, words),
    )
    words_in, places_in = 20 * words_in, 5 * places_in
    blocks = [
        (matrix(width, 3 * width), matrix(width, width), matrix(width, 2048), matrix(2048, width))
        for _ in range(layers)
    ]
    slots_of_all = texts * longest
    caches = [torch.zeros(2, slots_of_all, width, device="cuda") for _ in range(layers)]
    scheduler = Texts(texts, page, pages_each, words)
    sizes = [len(one) for one in scheduler.lists()]
    place = torch.empty(sum(sizes), dtype=torch.int64, pin_memory=after)
    within, every = torch.arange(page, device="cuda"), torch.arange(longest, device="cuda")

    def sent(lists: list[list[int]]) -> list[torch.Tensor]:
        if not after:
            return [torch.tensor(one, device="cuda") for one in lists]
        place.copy_(torch.tensor([*chain.from_iterable(lists)]))
        return list(place.to("cuda", non_blocking=True).split(sizes))

    def attended(
        state: torch.Tensor,
        cache: torch.Tensor,
        slots: torch.Tensor,
        all_slots: torch.Tensor,
        visible: torch.Tensor,
    ) -> torch.Tensor:
        """Return what each text's last token finds in the pages of the text, itself included."""
        query, key, value = state.chunk(3, dim=1)
        cache[0].index_copy_(0, slots, key)
        cache[1].index_copy_(0, slots, value)
        keys, values = (one[all_slots].view(texts, longest, heads, deep) for one in cache)
        found = scaled_dot_product_attention(
            query.reshape(texts, heads, 1, deep),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=visible[:, None, None],
        )
        return found.reshape(texts, width)

    @torch.inference_mode()
    def next_tokens(lists: list[list[int]]) -> list[int]:
        tokens, positions, slots, tables, recent, warm = sent(lists)
        all_slots = tables.view(texts, pages_each, 1) * page + within
        all_slots = all_slots.view(-1)
        visible = every <= positions[:, None]
        state = words_in[tokens] + places_in[positions]
        for (enter, leave, up, down), cache in zip(blocks, caches, strict=True):
            state = state + attended(state @ enter, cache, slots, all_slots, visible) @ leave
            state = torch.nn.functional.layer_norm(state, (width,))
            state = state + gelu(state @ up) @ down
        scores = (state @ words_out).scatter_(1, recent.view(texts, -1), -1e4)
        chances = torch.softmax(scores * 1000 / warm[:, None], dim=1)
        return (chances / torch.empty_like(chances).exponential_()).argmax(dim=1).tolist()

    while True:
        total = 0
        for _ in range(in_step):
            scheduler.grow(next_tokens(scheduler.lists()))
            total += sum(scheduler.tokens)
        yield float(total)


def curriculum(after: bool) -> Iterator[float]:
    """Learns most from those examples whose loss was largest when last learnt from."""
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy

    torch.manual_seed(0)
    stock, given, width, kinds, batch, batches = 32768, 128, 1536, 64, 512, 24
    random = np.random.default_rng(0)
    examples, kind_of = torch.randn(stock, given), torch.randint(kinds, (stock,))
    examples += 0.5 * torch.randn(kinds, given)[kind_of]
    examples, kind_of = examples.cuda(), kind_of.cuda()
    net = torch.nn.Sequential(
        *(torch.nn.Linear(given, width), torch.nn.ReLU()),
        *(torch.nn.Linear(width, width), torch.nn.ReLU()),
        *(torch.nn.Linear(width, width), torch.nn.ReLU()),
        torch.nn.Linear(width, kinds),
    ).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    worth = np.full(stock, 5.0)  # the loss of each example, when it was last learnt from

    def learnt(rows: torch.Tensor) -> torch.Tensor:
        """Return the loss of each example, once the net has learnt from it."""
        losses = cross_entropy(net(examples[rows]), kind_of[rows], reduction="none")
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        return losses.detach()

    while True:
        chosen = random.choice(stock, (batches, batch), p=worth / worth.sum())
        above = torch.from_numpy(chosen).cuda()
        if after:
            losses = torch.stack([learnt(rows) for rows in above]).cpu().numpy()
        else:
            losses = np.stack([learnt(rows).cpu().numpy() for rows in above])
        for rows, losses_of_rows in zip(chosen, losses, strict=True):
            worth[rows] = losses_of_rows + 0.05
        yield float(losses.sum(dtype=np.float64))


def federated(after: bool) -> Iterator[float]:
    """Makes one model of those that six clients trained, and hands it out to them."""
    import torch

    torch.manual_seed(0)
    clients, limit = 6, 3.0
    shapes = [(512, 512), (512,)] * 6 + [(1024, 512), (1024,), (512, 1024), (512,)]
    shares = [0.3, 0.1, 0.2, 0.15, 0.15, 0.1]

    def room() -> list[torch.Tensor]:
        """Return memory for a model, on the host."""
        return [torch.empty(shape, pin_memory=after) for shape in shapes]

    received = [room() for _ in range(clients)]  # by what talks to the clients
    handed = room()
    for one in chain(*received, handed):
        one.normal_(0, 0.02)
    model = [one.cuda() for one in handed]

    def receive() -> None:
        """Change some of each client's weights, as it trains."""
        for one in chain(*received):
            one.view(-1)[:256].normal_(0, 0.02)

    def add(total: list[torch.Tensor], client: list[torch.Tensor], share: float) -> None:
        """Add how far a client went from the model, but no farther than it may."""
        above = [one.to("cuda", non_blocking=after) for one in client]
        moves = [one - old for one, old in zip(above, model, strict=True)]
        size = torch.stack([move.norm() for move in moves]).norm()
        by = share * (limit / size).clamp(max=1)
        for one, move in zip(total, moves, strict=True):
            one.addcmul_(move, by)

    def hand_out() -> list[torch.Tensor]:
        if not after:
            return [one.cpu() for one in model]
        for one, place in zip(model, handed, strict=True):
            place.copy_(one, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return handed

    while True:
        receive()
        total = [torch.zeros_like(one) for one in model]
        for client, share in zip(received, shares, strict=True):
            add(total, client, share)
        for one, move in zip(model, total, strict=True):
            one.add_(move)
        yield sum(float(one.view(-1)[::64].double().abs().sum()) for one in hand_out())


def stereo(after: bool) -> Iterator[float]:
    """Finds how far what two cameras look at is, picture by picture of what they recorded."""
    import numpy as np
    import torch
    from torch.nn.functional import interpolate, pad

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    high, wide, parts, farthest, stored, in_step = 720, 1280, 16, 24, 6, 8
    shape = (2, 3, high, wide)
    random = np.random.default_rng(0)
    coarse = random.integers(0, 256, (stored, 3, high // 8, wide // 8), dtype=np.uint8)
    left = coarse.repeat(8, axis=2).repeat(8, axis=3)
    recorded = np.stack([left, np.roll(left, -20, axis=3)], axis=1)
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 32, 3, stride=2, padding=1), torch.nn.ReLU()),
        *(torch.nn.Conv2d(32, 32, 3, stride=2, padding=1), torch.nn.ReLU()),
        torch.nn.Conv2d(32, parts, 3, padding=1),
    ).cuda()
    steps = torch.arange(farthest, device="cuda").float()
    # The host decodes into `places`; before the change there is one, which is pageable.
    places = [torch.empty(shape, dtype=torch.uint8, pin_memory=after) for _ in range(1 + after)]
    aboves = [torch.empty(shape, dtype=torch.uint8, device="cuda") for _ in places]
    copies = torch.cuda.Stream()
    arrived = [torch.cuda.Event() for _ in places]

    def decode(number: int) -> torch.Tensor:
        """Put a pair of pictures, less what the cameras' dark current is, where it is sent from."""
        place = places[number % len(places)]
        np.subtract(recorded[number % stored], number % 3, out=place.numpy())
        return place

    def send_ahead(number: int) -> None:
        """Begin to send a pair; nothing reads the last one in its place any more."""
        at = number % len(places)
        place = decode(number)
        with torch.cuda.stream(copies):
            aboves[at].copy_(place, non_blocking=True)
            arrived[at].record()

    def next_pair(number: int) -> torch.Tensor:
        if not after:
            return decode(number).to("cuda", non_blocking=True)
        at = number % len(places)
        torch.cuda.current_stream().wait_event(arrived[at])
        return aboves[at]

    @torch.inference_mode()
    def distances(pair: torch.Tensor) -> torch.Tensor:
        """Return how far what each place shows is, at an eighth of the size."""
        left, right = net(pair.float() / 255)
        shifted = pad(right, (farthest - 1, 0)).unfold(2, left.shape[2], 1).flip(2)
        like = (left[:, :, None] * shifted).sum(0)  # rows, shifts, columns
        found = (torch.softmax(20 * like, dim=1) * steps[:, None]).sum(1)
        return interpolate(found[None, None], scale_factor=0.5, mode="bilinear")[0, 0]

    number = 0
    if after:
        torch.cuda.synchronize()
        send_ahead(0)
    while True:
        total = 0.0
        for _ in range(in_step):
            found = distances(next_pair(number))
            number += 1
            if after:
                send_ahead(number)
            total += float(found.cpu().numpy().sum(dtype=np.float64))
        yield total


def lbfgs(after: bool) -> Iterator[float]:
    """Learns to tell kinds of things, new ones in each step, by the method L-BFGS."""
    import torch

    torch.manual_seed(0)
    things, given, kinds, rounds, memory, tries = 65536, 512, 32, 12, 6, 8
    looks = torch.randn(things, given).cuda()
    place = torch.empty(2, pin_memory=after)

    def read(pair: torch.Tensor) -> list[float]:
        if not after:
            return pair.tolist()
        place.copy_(pair, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return place.tolist()

    def slope_of(weights: torch.Tensor, kind_of: torch.Tensor) -> Pair:
        """Return the loss, and how it changes with the weights."""
        chances = torch.log_softmax(looks @ weights, dim=1)
        right = torch.nn.functional.one_hot(kind_of, kinds)
        loss = 1e-3 * weights.square().sum() - (chances * right).sum() / things
        return loss, looks.T @ ((chances.exp() - right) / things) + 2e-3 * weights

    def direction(slope: torch.Tensor, past: deque[Pair]) -> torch.Tensor:
        """Return where to go, by how slopes changed of late (two loops, of Nocedal)."""
        found, shares = -slope, []
        for move, change in reversed(past):
            share = (move * found).sum() / (move * change).sum()
            shares.append(share)
            found = found - share * change
        if past:
            move, change = past[-1]
            found = found * ((move * change).sum() / change.square().sum())
        for (move, change), share in zip(past, reversed(shares), strict=True):
            found = found + move * (share - (change * found).sum() / (move * change).sum())
        return found

    def learnt(kind_of: torch.Tensor) -> float:
        """Return the sum of all losses on the road to the best weights."""
        weights = torch.zeros(given, kinds, device="cuda")
        past: deque[Pair] = deque(maxlen=memory)
        loss, slope = slope_of(weights, kind_of)
        total = 0.0
        for _ in range(rounds):
            towards = direction(slope, past)
            old, steep = read(torch.stack([loss, (slope * towards).sum()]))
            length = 1.0
            for _ in range(tries):
                there = weights + length * towards
                loss, next_slope = slope_of(there, kind_of)
                now, steep_now = read(torch.stack([loss, (next_slope * towards).sum()]))
                if now <= old + 1e-4 * length * steep:
                    break
                length /= 2
            if steep_now > steep:  # the loss curves upwards
                past.append((there - weights, next_slope - slope))
            weights, slope = there, next_slope
            total += now
        return total

    while True:
        kind_of = (looks @ torch.randn(given, kinds, device="cuda")).argmax(dim=1)
        yield learnt(kind_of)


def gnss(after: bool) -> Iterator[float]:
    """Finds which satellites a receiver hears, how late, and at which shift of frequency."""
    import cupy
    import numpy as np

    samples, satellites, shifts, stored, in_step = 16384, 32, 21, 7, 4
    random = np.random.default_rng(0)
    chips = random.choice(np.array([-1.0, 1.0], np.float32), (satellites, 1023))
    codes = chips[:, np.arange(samples) * 1023 // samples]
    spectra = [np.fft.fft(code).conj().astype(np.complex64) for code in codes]
    cycles = np.outer(np.arange(shifts) - shifts // 2, np.arange(samples) / samples) / 2
    wipes = cupy.asarray(np.exp(-2j * np.pi * cycles).astype(np.complex64))
    heard = [signal_of(random, codes, cycles) for _ in range(stored)]
    above = [cupy.asarray(one) for one in spectra] if after else []

    def found(signal: np.ndarray) -> float:
        """Return which satellites are heard in a millisecond, by a sum."""
        wiped = cupy.fft.fft(cupy.asarray(signal) * wipes, axis=1)
        peaks, places = [], []
        for number in range(satellites):
            spectrum = above[number] if after else cupy.asarray(spectra[number])
            power = power_of(cupy.fft.ifft(wiped * spectrum, axis=1))
            peaks.append(power.max())
            places.append(power.argmax())
        strong, where = cupy.stack(peaks).get(), cupy.stack(places).get()
        clear = strong > 4 * np.median(strong)
        return float(where[clear].sum() + strong.sum(dtype=np.float64))

    number = 0
    while True:
        yield sum(found(heard[one % stored]) for one in range(number, number + in_step))
        number += in_step


def power_of(wave: cupy.ndarray) -> cupy.ndarray:
    """Return the power of each sample of a wave."""
    return wave.real**2 + wave.imag**2


def signal_of(random: np.random.Generator, codes: np.ndarray, cycles: np.ndarray) -> np.ndarray:
    """Return what a receiver hears in a millisecond: codes of eight satellites, and noise."""
    import numpy as np

    samples = codes.shape[1]
    heard = random.standard_normal((samples, 2), dtype=np.float32) @ np.array([1, 1j])
    for number in random.choice(len(codes), 8, replace=False):
        late, shift = random.integers(samples), random.integers(len(cycles))
        heard += 0.2 * np.roll(codes[number], late) * np.exp(2j * np.pi * cycles[shift])
    return heard.astype(np.complex64)


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "paged": paged,
    "curriculum": curriculum,
    "federated": federated,
    "stereo": stereo,
    "lbfgs": lbfgs,
    "gnss": gnss,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
