"""An eighth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/eighth.py NAME --form before|after`` runs one. The CUDA C++ ones are
in eighth.cu. Their writer knew neither the code of `advise` nor what it says of them, and had no
GPU to run them on: what a comment says of time is a guess. "keep" in `CHANGES` is a word for data
that stay on the GPU in place of a way to the host and back, or of being sent anew.

===========  ======================================================  ===========================
name         before                                                  after
===========  ======================================================  ===========================
ppo          what is played lies on the host, and is sent in each    lies on the GPU
             of four passes that learn from it
detect       boxes, scores, labels of each image by `.cpu()`         of all images at once
activations  offloaded by `.cpu()` for the backward pass             to pinned memory
volumes      pinned, `non_blocking`, but on the kernels' stream      next one sent meanwhile
gan          two losses by `.item()` after 10 ms of products of      read at the end: no gain is
             matrices                                                expected
match        a map of 64 MiB sent for each picture, always the same  sent once
patterns     a field got by a `.get` that waits, into pinned         looked at while the GPU makes
             memory, then looked at by the host                      the next one
===========  ======================================================  ===========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import numpy as np
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # Pictures go up when they are played, and 27 MiB of them again in each of four passes, from
    # pageable memory; values and chances go down only to come back. Only actions are needed below.
    "ppo": ({"keep"},),
    # 288 copies of at most 512 bytes a batch, each of which the host waits for; no kernel is
    # between them.
    "detect": ({"batch"}, {"pin", "batch"}, {"defer"}),
    # 72 MiB go to what malloc gives, in part new pages, and come back, at the rate of pageable
    # memory. The host does not read them and need not wait; but that is little, as copies take
    # longer than launches.
    "activations": ({"pin"}, {"pin", "async"}),
    # Memory is pinned and the host does not wait, yet a copy on the kernels' stream waits for the
    # scan before, and its own scan's kernels for it. Another stream makes both go on at once.
    "volumes": ({"prefetch"}, {"streams"}),
    # After each loss the GPU idles until the next kernel is launched, some 30 us in 6 ms.
    "gan": (),
    # The link brings 64 MiB that are on the GPU already.
    "match": ({"keep"},),
    # Memory is pinned already. The GPU idles while the host looks at a field, though nothing that
    # it makes next depends on that.
    "patterns": ({"async"}, {"defer"}),
    # The copy and the kernels after it are on one stream, though they need not wait for each other
    # with a second place for what is copied.
    "lattice": ({"streams"},),
    # The host asks after each level whether it was the last: a copy up and one down, each of which
    # waits, for two kernels of few us. Levels after the last change nothing.
    "bfs": ({"defer"}, {"batch", "defer"}),
    # 64 KiB of balls that never change are sent before kernels of 10 ms.
    "trace": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"gan": {"defer"}, "trace": {"keep"}}
IN_CUDA = ("lattice", "bfs", "trace")
IN_PYTORCH = ("ppo", "detect", "activations", "volumes", "gan")


class Games:
    """Games that the CPU plays; each shows its last four pictures."""

    def __init__(self, count: int) -> None:
        import numpy as np

        random = np.random.default_rng(0)
        self.pictures = random.integers(0, 256, (32, 84, 84), dtype=np.uint8)
        self.places = np.arange(count) * 5 % len(self.pictures)
        self.shown = np.zeros((count, 4, 84, 84), dtype=np.uint8)

    def move(self, actions: np.ndarray) -> np.ndarray:
        """Move each game, and return what each gains by it."""
        self.places = (3 * self.places + actions + 1) % len(self.pictures)
        self.shown[:, :-1] = self.shown[:, 1:]
        self.shown[:, -1] = self.pictures[self.places]
        return (self.places % 3 == 0).astype("float32")


def ppo(after: bool) -> Iterator[float]:
    """Plays 64 games for 16 turns, then learns from them in four passes of four parts."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    count, turns, passes, in_part, actions = 64, 16, 4, 4, 6
    net = torch.nn.Sequential(
        torch.nn.Conv2d(4, 32, 8, stride=4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 4, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 64, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * 7 * 7, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, actions + 1),
    ).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-3)
    games = Games(count)
    noise = torch.rand(turns, count, actions).cuda()
    where = "cuda" if after else "cpu"
    pictures = torch.zeros(turns, count, 4, 84, 84, dtype=torch.uint8, device=where)
    taken = torch.zeros(turns, count, dtype=torch.int64, device=where)
    chances = torch.zeros(turns, count, device=where)
    values = torch.zeros(turns, count, device=where)
    gained = np.zeros((turns, count), dtype=np.float32)

    def judged(shown: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = net(shown / 255)
        return found[:, :-1].log_softmax(1), found[:, -1]

    @torch.no_grad()
    def play() -> None:
        for turn in range(turns):
            shown = torch.from_numpy(games.shown)
            given = shown.cuda()
            pictures[turn] = given if after else shown
            likely, values[turn] = judged(given)
            action = (likely + noise[turn]).argmax(1)
            chances[turn] = likely.gather(1, action[:, None])[:, 0]
            actions_below = action.cpu()
            taken[turn] = action if after else actions_below
            gained[turn] = games.move(actions_below.numpy())

    def learn(part: slice, returns: torch.Tensor) -> torch.Tensor:
        """Learn from the games' turns of a part; what is on the GPU already is not sent."""
        likely, value = judged(pictures[part].to("cuda").flatten(0, 1))
        chance = likely.gather(1, taken[part].to("cuda").view(-1, 1))[:, 0]
        ratio = (chance - chances[part].to("cuda").flatten()).exp()
        wanted = returns[part].flatten()
        better = wanted - values[part].to("cuda").flatten()
        policy = torch.minimum(ratio * better, ratio.clamp(0.8, 1.2) * better).mean()
        loss = (value - wanted).square().mean() / 2 - policy
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.detach()

    while True:
        play()
        returns_below = gained.copy()
        for turn in reversed(range(turns - 1)):
            returns_below[turn] += 0.9 * returns_below[turn + 1]
        returns = torch.from_numpy(returns_below).cuda()
        total = torch.zeros((), device="cuda")
        for _ in range(passes):
            for first in range(0, turns, in_part):
                total += learn(slice(first, first + in_part), returns)
        yield float(gained.sum()) + total.item()


def detect(after: bool) -> Iterator[float]:
    """Finds the 32 best boxes of each of two batches of 96 images, for the host to sift."""
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    batch, side, most, classes, in_step = 96, 160, 32, 12, 2
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 5, stride=2, padding=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 4 + classes, 3, stride=2, padding=1),
    ).cuda()
    images = torch.rand(in_step, batch, 3, side, side).cuda()

    @torch.inference_mode()
    def found(given: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        cells = net(given).flatten(2).transpose(1, 2)
        best, kinds = cells[..., 4:].sigmoid().max(2)
        scores, places = best.topk(most, dim=1)
        labels = kinds.gather(1, places)
        boxes = cells[..., :4].gather(1, places[..., None].expand(-1, -1, 4))
        if after:
            boxes, scores, labels = boxes.cpu(), scores.cpu(), labels.cpu()
        # What is on the host already `.cpu()` does not copy.
        return [
            (boxes[image].cpu(), scores[image].cpu(), labels[image].cpu())
            for image in range(len(given))
        ]

    number = 0
    while True:
        number += 1
        total = 0.0
        for given in images.roll(number, 4):
            for boxes, scores, labels in found(given):
                good = int((scores > 0.53).sum())  # they are sorted
                total += good + float(boxes[0, 0]) + sum(labels[:good].tolist())
        yield total


def activations(after: bool) -> Iterator[float]:
    """Learns with nine activations of 8 MiB offloaded to the host until they are needed again."""
    import torch

    torch.manual_seed(0)
    samples, width, blocks = 2048, 1024, 4
    layers = [(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(blocks)]
    net = torch.nn.Sequential(*(one for pair in layers for one in pair)).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1)
    given = torch.randn(samples, width).cuda()
    wanted = torch.randn(samples, width).cuda()

    def to_host(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.shape[:1] != (samples,):
            return tensor  # weights stay
        if not after:
            return tensor.cpu()
        found = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return found.copy_(tensor, non_blocking=True)

    def to_device(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to("cuda", non_blocking=after)

    while True:
        with torch.autograd.graph.saved_tensors_hooks(to_host, to_device):
            loss = (net(given) - wanted).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss.item()


def volumes(after: bool) -> Iterator[float]:
    """Counts what is bright in six scans a step, 32 MiB of 16-bit values each."""
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    in_step, width = 6, 16
    net = torch.nn.Sequential(
        torch.nn.Conv3d(1, width, 3), torch.nn.ReLU(), torch.nn.Conv3d(width, 1, 3)
    ).cuda()
    base = torch.randint(-1000, 2000, (128, 256, 512), dtype=torch.int16)
    scans = [base.roll(41 * number, 2).pin_memory() for number in range(2 * in_step)]
    copies = torch.cuda.Stream()

    def send(number: int) -> torch.Tensor:
        scan = scans[number % len(scans)]
        scan[0] = number % 1000  # of the scanner; the step that copied this scan last is over
        if not after:
            return scan.to("cuda", non_blocking=True)
        with torch.cuda.stream(copies):
            return scan.to("cuda", non_blocking=True)

    @torch.inference_mode()
    def bright(scan: torch.Tensor) -> torch.Tensor:
        light = scan[None, None].float().clamp(-600, 1500) / 600
        return (net(torch.nn.functional.avg_pool3d(light, 4)) > 0.05).sum()

    number = 0
    following = send(0) if after else None
    while True:
        counts = []
        for _ in range(in_step):
            if following is None:
                scan = send(number)
            else:
                torch.cuda.current_stream().wait_stream(copies)
                scan = following
                scan.record_stream(torch.cuda.current_stream())
                following = send(number + 1)
            counts.append(bright(scan))
            number += 1
        yield float(sum(place * one for place, one in enumerate(torch.stack(counts).tolist(), 1)))


def gan(after: bool) -> Iterator[float]:
    """Two rounds a step of a net that invents vectors, and one that tells them from given ones."""
    import torch

    torch.manual_seed(0)
    batch, hidden, width, thought, in_step = 4096, 2048, 1024, 128, 2
    inventor = torch.nn.Sequential(
        torch.nn.Linear(thought, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, width),
    ).cuda()
    judge = torch.nn.Sequential(
        torch.nn.Linear(width, hidden),
        torch.nn.LeakyReLU(0.2),
        torch.nn.Linear(hidden, hidden),
        torch.nn.LeakyReLU(0.2),
        torch.nn.Linear(hidden, 1),
    ).cuda()
    inventing = torch.optim.SGD(inventor.parameters(), lr=1e-3)
    judging = torch.optim.SGD(judge.parameters(), lr=1e-3)
    misfit = torch.nn.BCEWithLogitsLoss()
    given = (torch.randn(batch, width) + 0.5).cuda()
    yes, no = torch.ones(batch, 1).cuda(), torch.zeros(batch, 1).cuda()

    def learn(optimiser: torch.optim.Optimizer, loss: torch.Tensor) -> torch.Tensor | float:
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.detach() if after else loss.item()

    while True:
        losses = []
        for _ in range(in_step):
            invented = inventor(torch.randn(batch, thought, device="cuda"))
            wrong = misfit(judge(given), yes) + misfit(judge(invented.detach()), no)
            losses.append(learn(judging, wrong))
            losses.append(learn(inventing, misfit(judge(invented), yes)))
        yield sum(torch.stack(losses).tolist() if after else losses)


def match(after: bool) -> Iterator[float]:
    """Finds, for 1024 features of each of three pictures, the nearest of 131072 of a map."""
    import cupy
    import numpy as np

    in_step, count, known, width = 3, 1024, 1 << 17, 128
    random = np.random.default_rng(0)
    chart = directions(random, known, width)
    pictures = [directions(random, count, width) for _ in range(2 * in_step)]
    chart_above = cupy.asarray(chart) if after else None

    def nearest(features: np.ndarray) -> np.ndarray:
        landmarks = cupy.asarray(chart) if chart_above is None else chart_above
        return (cupy.asarray(features) @ landmarks.T).argmax(axis=1).get()

    number = 0
    while True:
        total = 0
        for _ in range(in_step):
            total += int(nearest(pictures[number % len(pictures)]).sum())
            number += 1
        yield float(total)


def directions(random: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Return random vectors of length one."""
    found = random.standard_normal((count, width), dtype="float32")
    return found / (found * found).sum(axis=1, keepdims=True) ** 0.5


REACT = """
constexpr int kSide = 2048;

// A step of two substances that spread, and react, as Gray and Scott have it.
extern "C" __global__ void react(const float* u, const float* v, float* new_u, float* new_v) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  const int here = y * kSide + x;
  const int left = y * kSide + ((x - 1) & (kSide - 1));
  const int right = y * kSide + ((x + 1) & (kSide - 1));
  const int above = ((y - 1) & (kSide - 1)) * kSide + x;
  const int below = ((y + 1) & (kSide - 1)) * kSide + x;
  const float a = u[here], b = v[here];
  const float more_a = u[left] + u[right] + u[above] + u[below] - 4 * a;
  const float more_b = v[left] + v[right] + v[above] + v[below] - 4 * b;
  const float made = a * b * b;
  new_u[here] = a + 0.16f * more_a - made + 0.06f * (1 - a);
  new_v[here] = b + 0.08f * more_b + made - 0.122f * b;
}
"""


def patterns(after: bool) -> Iterator[float]:
    """Six fields a step of a reaction, 16 MiB each, 64 steps of time apart."""
    import cupy
    import cupyx
    import numpy as np

    side, threads, fields, apart = 2048, 256, 6, 64
    react = cupy.RawKernel(REACT, "react")
    drops = np.random.default_rng(0).random((side // 32, side // 32)) < 0.3
    start = np.kron(drops, np.ones((32, 32), dtype=np.float32)).astype(np.float32)
    now = cupy.asarray(1 - start / 2), cupy.asarray(start / 4)
    following = cupy.empty_like(now[0]), cupy.empty_like(now[1])
    places = [cupyx.empty_pinned((side, side), np.float32) for _ in range(2)]
    got = [cupy.cuda.Event() for _ in places]

    def looked_at(number: int) -> int:
        """Wait for a field, and return how often its rows enter or leave a spot."""
        got[number % 2].synchronize()
        spots = places[number % 2] > 0.2
        return int(np.count_nonzero(spots[:, 1:] != spots[:, :-1]))

    while True:
        counts = []
        for number in range(fields):
            for _ in range(apart):
                react((side // threads, side), (threads,), (*now, *following))
                now, following = following, now
            now[1].get(out=places[number % 2], blocking=not after)
            got[number % 2].record()
            if not after:
                counts.append(looked_at(number))
            elif number > 0:  # of the field before, while the GPU goes on
                counts.append(looked_at(number - 1))
        if after:
            counts.append(looked_at(fields - 1))
        yield float(sum(place * one for place, one in enumerate(counts, 1)))


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "ppo": ppo,
    "detect": detect,
    "activations": activations,
    "volumes": volumes,
    "gan": gan,
    "match": match,
    "patterns": patterns,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
