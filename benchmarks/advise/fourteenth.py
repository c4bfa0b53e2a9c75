"""A fourteenth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/fourteenth.py NAME --form before|after`` runs one. The CUDA C++ ones are
in fourteenth.cu. They, `CHANGES` and `TEMPTING` were written blind: without a look at how `advise`
works, or at what it said of other sets, and without a GPU. Times in comments are guesses. "keep"
stands for data that stay on the GPU, in place of a journey to the host and back or of being sent
anew.

========  ===========================================================  ===========================
name      before                                                       after
========  ===========================================================  ===========================
sessions  states of the 128 users whose turn it is go up, and come     all users' states stay on
          down to the host's table of all users                        the GPU
ema       weights by `.cpu()` after each iteration, for a mean over    to pinned memory; the mean
          time that the host keeps                                     is made an iteration later
ocr       each of 48 lines of a page is copied to where it is read     all by one copy from pinned
                                                                       memory
upscale   frames sent ahead and fetched late, pinned, by streams of    two frames by one copy: no
          their own; convolutions keep the GPU busy                    gain is expected
cryoem    pictures of molecules from pageable memory, batch by batch   pinned, the next batch sent
                                                                       meanwhile
permute   one number of each permutation by `float`, though the host   32 numbers at once
          decides by 32 of them
========  ===========================================================  ===========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import cupy
    import numpy as np
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # 2 MiB up and 2 MiB down, both pageable, around some twenty kernels; the host only stores
    # them. What it needs is the features that it sends and the symbols that it reads.
    "sessions": ({"keep"},),
    # 19 MB to new pageable memory take longer than the iteration; the host's mean takes another
    # millisecond. Nothing on the GPU needs it, but for a look each 20 steps.
    "ema": ({"pin", "async"},),
    # 48 copies of 8 to 28 KB, each of which the host waits for; all lines are there at once.
    "ocr": ({"batch"}, {"pin", "batch"}),
    # 390 KB up and 1.6 MB down for each frame of more than a millisecond; none is waited for.
    "upscale": (),
    # 32 MiB for each batch, some 4 ms, around 1 ms of kernels. Pinned, a copy takes 0.6 ms, which
    # kernels of the batch before hide.
    "cryoem": ({"pin", "prefetch"}, {"pin", "async", "prefetch"}),
    # 4 bytes after each 60 µs of kernels, so that the GPU idles until the next ones are launched.
    "permute": ({"defer"}, {"batch", "defer"}),
    # 8 of 10 MB for each solution are a matrix that never changes.
    "circuit": ({"keep"},),
    # 8 KB up and 4 KB down, pinned, around three kernels of some microseconds; the host needs each
    # command to know what the next picture is.
    "optics": ({"mapped"}, {"pin", "mapped"}),
    # All is pinned and asynchronous, and the host is a frame ahead, but in one stream: 50 MB up,
    # kernels, and 34 MB down take turns.
    "panorama": ({"streams"}, {"prefetch"}, {"prefetch", "streams"}, {"async", "streams"}),
    # Pageable copies, but by a thread that waits for four others, which take ten times as long.
    "parse": (),
    # Some 4 MB to pageable memory for each surface, after the 4 bytes that say how many they are.
    "isosurface": ({"pin"}, {"pin", "async"}),
    # 512 KiB to pinned memory by a call that waits for the kernels before; then the host works as
    # long as they did, on what only the kernels after the next ones need to know.
    "swarm": ({"async"}, {"defer"}),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"upscale": {"batch"}, "parse": {"pin"}}
IN_CUDA = ("circuit", "optics", "panorama", "parse", "isosurface", "swarm")
IN_PYTORCH = ("sessions", "ema", "ocr", "upscale")


def sessions(after: bool) -> Iterator[float]:
    """Takes down what users say, by a net that remembers what each of them said so far."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    users, turn, layers, width, given, symbols, in_step = 512, 128, 4, 1024, 80, 64, 8
    longest = 100
    random = np.random.default_rng(0)
    enter = torch.nn.Linear(given, width).cuda()
    cells = [torch.nn.GRUCell(width, width).cuda() for _ in range(layers)]
    leave = torch.nn.Linear(width, symbols).cuda()
    states = torch.zeros(users, layers, width, device="cuda" if after else "cpu")
    lengths = np.zeros(users, dtype=np.int64)  # of what each user said since last silent
    heard = torch.from_numpy(random.standard_normal((users, given), dtype=np.float32))

    def states_of(rows: torch.Tensor) -> torch.Tensor:
        return states[rows] if after else states[rows].cuda()

    def store(rows: torch.Tensor, found: torch.Tensor) -> None:
        states[rows] = found if after else found.cpu()

    @torch.inference_mode()
    def understood(chosen: np.ndarray) -> list[int]:
        """Return the next symbol of each user; who begins anew is not remembered."""
        rows = torch.from_numpy(chosen)
        features = torch.cat([heard[rows], torch.from_numpy(lengths[chosen] > 0)[:, None]], dim=1)
        above = features.cuda()
        if after:
            rows = rows.cuda()
        old = (states_of(rows) * above[:, given:, None]).transpose(0, 1).contiguous()
        state, found = enter(above[:, :given]).tanh(), []
        for layer, cell in enumerate(cells):
            new = cell(state, old[layer])
            state = state + new
            found.append(new)
        store(rows, torch.stack(found, dim=1))
        return leave(state).argmax(dim=1).tolist()

    def listen() -> int:
        """Hear some of the users for a moment; return what they say, by a sum."""
        chosen = np.sort(random.choice(users, turn, replace=False))
        heard[torch.from_numpy(chosen)] = torch.from_numpy(
            random.standard_normal((turn, given), dtype=np.float32)
        )
        said = np.array(understood(chosen))
        lengths[chosen] += 1
        silent = chosen[(said == 0) | (lengths[chosen] >= longest)]
        lengths[silent] = 0
        return int((said * (1 + chosen % 7)).sum() + lengths.sum())

    while True:
        yield float(sum(listen() for _ in range(in_step)))


def ema(after: bool) -> Iterator[float]:
    """Learns, and keeps on the host the mean of the weights over time, which judges better."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.manual_seed(0)
    stock, given, width, kinds, batch, in_step = 16384, 1024, 1536, 512, 4096, 4
    apart, by = 20, 0.02
    examples = torch.randn(stock, given)
    kind_of = torch.randint(kinds, (stock,))
    examples += torch.randn(kinds, given)[kind_of] / 2
    examples, kind_of = examples.cuda(), kind_of.cuda()

    def a_net() -> torch.nn.Sequential:
        return torch.nn.Sequential(
            *(torch.nn.Linear(given, width), torch.nn.GELU()),
            *(torch.nn.Linear(width, width), torch.nn.GELU()),
            torch.nn.Linear(width, kinds),
        ).cuda()

    net, judge = a_net(), a_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    means = [one.detach().cpu().clone() for one in net.parameters()]
    places = [[torch.empty(one.shape, pin_memory=True) for one in means] for _ in range(2 * after)]
    stowed = [torch.cuda.Event() for _ in places]

    def learnt() -> torch.Tensor:
        """Return the loss of a batch, once the net has learnt from it."""
        rows = torch.randint(stock, (batch,), device="cuda")
        loss = cross_entropy(net(examples[rows]), kind_of[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def stow(turn: int) -> None:
        """Begin to fetch the weights."""
        for place, one in zip(places[turn % 2], net.parameters(), strict=True):
            place.copy_(one.detach(), non_blocking=True)
        stowed[turn % 2].record()

    def absorb(weights: list[torch.Tensor]) -> None:
        for mean, one in zip(means, weights, strict=True):
            mean.lerp_(one, by)

    def absorb_stowed(turn: int) -> None:
        stowed[turn % 2].synchronize()
        absorb(places[turn % 2])

    def take_turns() -> list[torch.Tensor]:
        """Return the losses of a step's iterations."""
        losses = []
        for turn in range(in_step):
            losses.append(learnt())
            if not after:
                absorb([one.detach().cpu() for one in net.parameters()])
                continue
            stow(turn)
            if turn > 0:
                absorb_stowed(turn - 1)
        if after:
            absorb_stowed(in_step - 1)
        return losses

    @torch.no_grad()
    def judged() -> float:
        """Return the share of some examples that the mean weights know."""
        for one, mean in zip(judge.parameters(), means, strict=True):
            one.copy_(mean)
        right = judge(examples[:batch]).argmax(dim=1) == kind_of[:batch]
        return float(right.float().mean())

    step, share = 0, 0.0
    while True:
        losses = take_turns()
        step += 1
        if step % apart == 0:
            share = judged()
        mean = sum(float(one.view(-1)[::512].double().abs().sum()) for one in means)
        yield float(torch.stack(losses).sum()) + mean + share


def ocr(after: bool) -> Iterator[float]:
    """Reads the lines of pages, whose places on the page are known."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    high, wide, lines, tall, letters, stored, in_step = 2048, 1536, 48, 32, 96, 5, 2
    shortest, longest, white = 256, 896, 255
    random = np.random.default_rng(0)
    pages = random.integers(0, 256, (stored, high // 4, wide // 4), dtype=np.uint8)
    pages = pages.repeat(4, axis=1).repeat(4, axis=2)
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Conv2d(64, 128, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Conv2d(128, 128, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        torch.nn.Conv2d(128, letters, (tall // 8, 1)),
    ).cuda()
    above = torch.empty(lines, 1, tall, longest, dtype=torch.uint8, device="cuda")
    shape = tuple(above.shape)
    gathered = torch.empty(shape, dtype=torch.uint8, pin_memory=True) if after else None

    def boxes() -> list[tuple[int, int, int]]:
        """Return where on a page each line begins, and how long it is."""
        tops = np.arange(lines) * (high // lines) + random.integers(0, high // lines - tall, lines)
        lengths = random.integers(shortest, longest + 1, lines)
        lefts = random.integers(0, wide - lengths + 1)
        return [*zip(tops.tolist(), lefts.tolist(), lengths.tolist(), strict=True)]

    def lay_out(page: np.ndarray, places: list[tuple[int, int, int]]) -> None:
        """Put the lines where they are read, each on the left of its place."""
        if gathered is None:
            above.fill_(white)
        else:
            gathered.fill_(white)
        for number, (top, left, length) in enumerate(places):
            line = page[top : top + tall, left : left + length]
            if gathered is None:
                place = above[number, 0, :, :length]
                place.copy_(torch.from_numpy(np.ascontiguousarray(line)))
            else:
                gathered[number, 0, :, :length] = torch.from_numpy(line)
        if gathered is not None:
            above.copy_(gathered, non_blocking=True)

    @torch.inference_mode()
    def letters_of() -> tuple[np.ndarray, np.ndarray]:
        """Return which letter each piece of each line shows, and how sure that is."""
        chances = torch.softmax(40 * net(above.float() / white - 0.5)[:, :, 0], dim=1)
        sure, letter = chances.max(dim=1)
        return letter.cpu().numpy(), sure.mean(dim=1).cpu().numpy()

    def text_of(pieces: np.ndarray) -> list[int]:
        """Return the letters of a line: equal ones side by side are one, and 0 is none."""
        return [letter for letter, _ in groupby(pieces.tolist()) if letter]

    def read(page: np.ndarray) -> float:
        places = boxes()
        lay_out(page, places)
        letter, sure = letters_of()
        total = 0
        for number, (_, _, length) in enumerate(places):
            text = text_of(letter[number, : length // 8])
            # What is unclear counts for less.
            total += sum(text) if sure[number] > 0.2 else len(text)
        return float(total)

    number = 0
    while True:
        yield sum(read(pages[one % stored]) for one in range(number, number + in_step))
        number += in_step


def upscale(after: bool) -> Iterator[float]:
    """Makes frames of a film twice as high and as wide, by a net."""
    import numpy as np
    import torch
    from torch.nn.functional import pixel_shuffle, relu

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    high, wide, width, blocks, stored, in_step = 270, 480, 64, 6, 5, 6
    together, slots, late = 2 if after else 1, 3, 2
    random = np.random.default_rng(0)
    film = random.integers(0, 256, (stored, 3, high // 10, wide // 10), dtype=np.uint8)
    film = film.repeat(10, axis=2).repeat(10, axis=3)

    def conv(enter: int, leave: int) -> torch.nn.Conv2d:
        return torch.nn.Conv2d(enter, leave, 3, padding=1).cuda()

    head, tail = conv(3, width), conv(width, 12)
    body = [(conv(width, width), conv(width, width)) for _ in range(blocks)]
    shape, large = (together, 3, high, wide), (3, 2 * high, 2 * wide)
    decoded = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(slots)]
    frames = [torch.empty(shape, dtype=torch.uint8, device="cuda") for _ in range(slots)]
    made = [torch.empty(large, dtype=torch.uint8, device="cuda") for _ in range(slots)]
    shown = [torch.empty(large, dtype=torch.uint8, pin_memory=True) for _ in range(slots)]
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    sent, used, ready, there = ([torch.cuda.Event() for _ in range(slots)] for _ in range(4))

    def send(group: int) -> None:
        """Decode frames, and begin to send them."""
        at = group % slots
        sent[at].synchronize()  # what was in their place
        for place in range(together):
            number = group * together + place
            np.subtract(film[number % stored], number % 7, out=decoded[at][place].numpy())
        with torch.cuda.stream(up):
            up.wait_event(used[at])
            frames[at].copy_(decoded[at], non_blocking=True)
            sent[at].record(up)

    @torch.inference_mode()
    def larger(frame: torch.Tensor) -> torch.Tensor:
        state = head(frame[None].float() / 255)
        for one, other in body:
            state = state + other(relu(one(state)))
        return pixel_shuffle(tail(state), 2)[0].sigmoid() * 255

    def start(number: int) -> None:
        """Launch all that a frame needs, and begin to fetch what is made of it."""
        group, place = divmod(number, together)
        if place == 0:
            main.wait_event(sent[group % slots])
        at = number % slots  # which was looked at
        made[at].copy_(larger(frames[group % slots][place]))
        ready[at].record(main)
        if place == together - 1:
            used[group % slots].record(main)
        with torch.cuda.stream(down):
            down.wait_event(ready[at])
            shown[at].copy_(made[at], non_blocking=True)
            there[at].record(down)
        if place == 0:
            send(group + 1)

    def look_at(number: int) -> int:
        """Return the sum of some pixels of a frame, once they are there."""
        there[number % slots].synchronize()
        return int(shown[number % slots].numpy()[:, ::8, ::8].sum(dtype=np.int64))

    number = 0
    torch.cuda.synchronize()
    send(0)
    while True:
        total = 0
        for _ in range(in_step):
            start(number)
            if number >= late:
                total += look_at(number - late)
            number += 1
        yield float(total)


def cryoem(after: bool) -> Iterator[float]:
    """Sorts pictures of molecules by what they show, and makes clear pictures of it."""
    import cupy
    import cupyx
    import numpy as np

    side, pictures, stored, in_step, kinds, reach, few = 128, 512, 8, 4, 32, 2, 4
    random = np.random.default_rng(0)
    shape, half = (pictures, side, side), side // 2 + 1
    batches = [
        (cupyx.empty_pinned if after else np.empty)(shape, np.float32) for _ in range(stored)
    ]
    looks = molecules(random, kinds, side)
    for batch in batches:
        take_pictures(random, looks, reach, batch)
    along, across = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    lens = cupy.asarray(np.sin(0.5 + 300 * (along**2 + across**2)), dtype=np.float32)
    shifts = [
        (down, right) for down in range(-reach, reach + 1) for right in range(-reach, reach + 1)
    ]
    ramps = cupy.asarray(
        np.stack(
            [np.exp(-2j * np.pi * (along * one + across * two)).ravel() for one, two in shifts]
        ),
        dtype=np.complex64,
    )
    every = cupy.arange(kinds)
    places = [cupy.empty(shape, np.float32) for _ in range(1 + after)]
    copies = cupy.cuda.Stream(non_blocking=True)
    main = cupy.cuda.get_current_stream()
    arrived, used = ([cupy.cuda.Event(disable_timing=True) for _ in places] for _ in range(2))

    def taken(number: int) -> np.ndarray:
        """Return a batch as the microscope leaves it, which numbers its pictures."""
        batch = batches[number % stored]
        batch[:, 0, 0] = number % 3
        return batch

    def send_ahead(number: int) -> None:
        """Begin to send a batch, once the kernels before need its place no more."""
        at = number % len(places)
        copies.wait_event(used[at])
        places[at].set(taken(number), stream=copies)
        arrived[at].record(copies)

    def next_batch(number: int) -> cupy.ndarray:
        if not after:
            places[0].set(taken(number))
            return places[0]
        send_ahead(number + 1)
        main.wait_event(arrived[number % 2])
        return places[number % 2]

    def spectra_of(batch: cupy.ndarray) -> cupy.ndarray:
        return (cupy.fft.rfft2(batch) * lens).reshape(len(batch), side * half)

    def sort(batch: cupy.ndarray, models: cupy.ndarray, sums: cupy.ndarray) -> cupy.ndarray:
        """Add the pictures, centred, to the sums of their kinds; return how many each one has.

        Behind these numbers is how like the models all pictures are.
        """
        spectra = spectra_of(batch)
        likeness = spectra.view(np.float32) @ models.T
        best = likeness.argmax(axis=1)
        centred = spectra * ramps[best % len(shifts)].conj()
        member = (best[:, None] // len(shifts) == every).astype(np.float32)
        sums += member.T @ centred.view(np.float32)
        return cupy.concatenate([member.sum(axis=0), likeness.max(axis=1).mean()[None]])

    def models_of(means: cupy.ndarray) -> cupy.ndarray:
        """Return each kind's mean, shifted in all directions, each as long as the others."""
        shifted = (means[:, None] * ramps).reshape(-1, side * half).view(np.float32)
        return shifted / cupy.sqrt((shifted**2).sum(axis=1, keepdims=True))

    number = 0
    if after:
        used[0].record(main)  # nothing that is in use yet is to be overtaken
        send_ahead(0)
    first = cupy.asarray(batches[-1][:kinds])
    means = spectra_of(first)
    while True:
        models = models_of(means)
        sums = cupy.zeros((kinds, 2 * side * half), np.float32)
        total = cupy.zeros(kinds + 1, np.float32)
        for _ in range(in_step):
            total += sort(next_batch(number), models, sums)
            used[number % len(places)].record(main)
            number += 1
        counts = total.get()
        fresh = (sums / cupy.maximum(total[:kinds, None], 1)).view(np.complex64)
        means = 0.5 * means + 0.5 * fresh
        for kind in np.flatnonzero(counts[:kinds] < few):  # takes a share of the fullest
            means[kind] = means[int(counts[:kinds].argmax())] * ramps[int(kind) % len(shifts)]
        yield float(counts[:kinds] @ np.arange(1, kinds + 1) + counts[kinds])


def molecules(random: np.random.Generator, kinds: int, side: int) -> np.ndarray:
    """Return what molecules look like from some sides (kinds, side, side): heaps of blobs."""
    import numpy as np

    blobs, at = 8, np.arange(side)
    middles = random.uniform(0.3 * side, 0.7 * side, (2, kinds, blobs, 1))
    down, across = np.exp(-((at - middles) ** 2) / 18)
    return np.einsum("kbi,kbj->kij", down, across).astype(np.float32)


def take_pictures(
    random: np.random.Generator, looks: np.ndarray, reach: int, batch: np.ndarray
) -> None:
    """Fill a batch with noisy pictures, each off the middle by some pixels."""
    import numpy as np

    batch[:] = random.standard_normal(batch.shape, dtype=np.float32)
    for picture in batch:
        shift = random.integers(-reach, reach + 1, 2).tolist()
        picture += np.roll(looks[random.integers(len(looks))], shift, axis=(0, 1))


PERMUTE = r"""
// How unlike two groups of people are at each site of their genome: Welch's t; a warp a site.
extern "C" __global__ void unlike(const float* levels, const float* group, int people, float* t) {
  const int site = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float all = 0, all_squares = 0, own = 0, own_squares = 0, members = 0;
  for (int i = lane; i < people; i += 32) {
    const float level = levels[(size_t)site * people + i], in = group[i];
    all += level;
    all_squares += level * level;
    own += in * level;
    own_squares += in * level * level;
    members += in;
  }
  for (int by = 16; by > 0; by /= 2) {
    all += __shfl_xor_sync(0xffffffff, all, by);
    all_squares += __shfl_xor_sync(0xffffffff, all_squares, by);
    own += __shfl_xor_sync(0xffffffff, own, by);
    own_squares += __shfl_xor_sync(0xffffffff, own_squares, by);
    members += __shfl_xor_sync(0xffffffff, members, by);
  }
  if (lane != 0) return;
  const float others = people - members;
  const float mean = own / members, other_mean = (all - own) / others;
  const float spread = own_squares / members - mean * mean;
  const float other_spread = (all_squares - own_squares) / others - other_mean * other_mean;
  t[site] = (mean - other_mean) / sqrtf(spread / members + other_spread / others);
}

// How unlike they are in each region, which is `size` sites; a warp a region.
extern "C" __global__ void regional(const float* t, const int* sites, int size, float* scores) {
  const int region = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float sum = 0;
  for (int i = lane; i < size; i += 32) sum += t[sites[region * size + i]];
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffff, sum, by);
  if (lane == 0) scores[region] = fabsf(sum) * rsqrtf((float)size);
}
"""


def permute(after: bool) -> Iterator[float]:
    """Finds how likely it is by chance that people's genomes differ as much as they do.

    People are put into two groups anew, until groups have differed as much eight times.
    """
    import cupy
    import numpy as np

    sites, people, regions, size, traits, blocks, block, enough = 65536, 256, 2048, 48, 4, 3, 32, 8
    random = np.random.default_rng(0)
    module = cupy.RawModule(code=PERMUTE)
    unlike, regional = module.get_function("unlike"), module.get_function("regional")
    half = np.repeat(np.array([0, 1], np.float32), people // 2)
    actual = np.stack([random.permutation(half) for _ in range(traits)])
    members = random.integers(0, sites, (regions, size), dtype=np.int32)
    drawn = random.standard_normal((sites, people), dtype=np.float32)
    for trait in range(traits // 2):  # those that have to do with the genome
        drawn[members[100 * trait + 7]] += actual[trait]
    levels, sites_of = cupy.asarray(drawn), cupy.asarray(members)
    t, scores = cupy.empty(sites, np.float32), cupy.empty(regions, np.float32)

    def most(group: cupy.ndarray) -> cupy.ndarray:
        """Return how unlike groups are where they are most unlike."""
        unlike((sites // 8,), (256,), (levels, group, np.int32(people), t))
        regional((regions // 8,), (256,), (t, sites_of, np.int32(size), scores))
        return scores.max()

    def found_of(groups: cupy.ndarray) -> list[float]:
        if not after:
            return [float(most(group)) for group in groups]
        return cupy.stack([most(group) for group in groups]).get().tolist()

    def chance(trait: int) -> tuple[float, float]:
        """Return the chance that groups differ as much, and how much they differ by chance."""
        observed = float(most(cupy.asarray(actual[trait])))
        found: list[float] = []
        above = 0
        while len(found) < blocks * block and above < enough:
            groups = np.stack([random.permutation(half) for _ in range(block)])
            found += found_of(cupy.asarray(groups))
            above = sum(one >= observed for one in found)
        return (1 + above) / (1 + len(found)), sum(found) / len(found)

    while True:
        yield float(sum(1000 * one + two for one, two in map(chance, range(traits))))


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "sessions": sessions,
    "ema": ema,
    "ocr": ocr,
    "upscale": upscale,
    "cryoem": cryoem,
    "permute": permute,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
