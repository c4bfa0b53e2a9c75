"""An eleventh set of programs for the closed loop of advise, in PyTorch.

``python benchmarks/advise/eleventh.py NAME --form before|after`` runs one. The CUDA C++ ones are
in eleventh.cu. They, `CHANGES` and `TEMPTING` were written blind: without a look at how `advise`
works, or at what it said of other sets, and without a GPU. Times in comments are guesses. "keep"
stands for data that stay on the GPU, in place of being sent anew.

=========  =========================================================  ==========================
name       before                                                     after
=========  =========================================================  ==========================
forecast   windows of a series stacked into pageable memory, then     pinned, by calls that do not
           sent                                                       wait
moco       a queue of earlier results, of which an iteration          the queue stays on the GPU
           replaces a sixty-fourth, held by the host and sent whole
reid       what each of 24 people in a frame looks like by `.cpu()`,  by one copy a frame
           though it is used when all are there
distill    a loss read by `.item()` after each iteration of           read at the end: no gain is
           milliseconds of kernels                                    expected
=========  =========================================================  ==========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import numpy as np
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # 16 MB from pageable memory, for which the host waits: after the last batch's kernels, and
    # before it can stack the next windows. All windows are needed, as they are drawn at random.
    "forecast": ({"pin", "async"},),
    # 17 MB go up for each iteration, of which the GPU made what is new itself: 256 KB, which come
    # down for it. Pinned they would still take a third of the time.
    "moco": ({"keep"},),
    # Each copy, of 512 bytes, waits for a few short kernels, and no kernel is launched meanwhile.
    # The host reads them together, once a frame, which is needed: it matches them with people.
    "reid": ({"defer"}, {"batch", "defer"}, {"batch"}),
    # Kernels take far longer than what the GPU waits for between two iterations, which are the
    # launch of the first kernel and 512 KiB that are needed, pageable or not.
    "distill": (),
    # 5 MB from pageable memory and 128 KiB to it, around a kernel that takes about as long.
    "kmers": ({"pin"},),
    # Meshes that never change are nearly all that goes up; what comes down, a third of that, is
    # needed, to pageable memory.
    "skinning": ({"keep", "pin"},),
    # A wait of 16 KiB after each 20 µs of kernels; read at the end of a step.
    "epidemic": ({"defer"}, {"batch", "defer"}),
    # 512 calls of a kilobyte, for which a single copy would do.
    "spectra": ({"pin", "batch"}, {"batch"}),
    # All is pinned and asynchronous, in one stream and one place; kernels take about as long as
    # copies.
    "correlator": ({"streams"}, {"prefetch"}),
    # The GPU idles while the host writes a file, the host while the GPU works, and memory is
    # pageable both ways.
    "develop": ({"pin", "prefetch"}, {"pin", "async", "prefetch"}, {"pin", "async"}),
    # The link is busy all the time with bytes that are needed, from pinned memory.
    "parity": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"distill": {"defer"}, "parity": {"streams"}}
IN_CUDA = ("kmers", "skinning", "epidemic", "spectra", "correlator", "develop", "parity")
IN_PYTORCH = ("forecast", "moco", "reid", "distill")


def forecast(after: bool) -> Iterator[float]:
    """Learns from three years what 320 meters of electric power show the day after a week."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    hours, meters, seen, ahead, batch, width, in_step = 26_304, 320, 168, 24, 64, 512, 3
    random = np.random.default_rng(0)
    often = torch.arange(hours)[:, None] * (2 * torch.pi / 24)
    series = torch.sin(often + torch.rand(meters)) + 0.3 * torch.randn(hours, meters)
    net = torch.nn.Sequential(
        *(torch.nn.Linear(seen, width), torch.nn.GELU()),
        *(torch.nn.Linear(width, width), torch.nn.GELU()),
        torch.nn.Linear(width, ahead),
    ).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    places = [torch.empty(batch, seen + ahead, meters, pin_memory=after) for _ in range(2)]
    events = [torch.cuda.Event() for _ in places]

    def sent(number: int) -> torch.Tensor:
        starts = random.integers(0, hours - seen - ahead, batch).tolist()
        windows = [series[start : start + seen + ahead] for start in starts]
        if not after:
            return torch.stack(windows).cuda()
        place, event = places[number % 2], events[number % 2]
        event.synchronize()  # the last copy from this place
        torch.stack(windows, out=place)
        found = place.to("cuda", non_blocking=True)
        event.record()
        return found

    def learnt(windows: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch of windows, once the net has learnt from it."""
        values = windows.transpose(1, 2)
        mean = values[..., :seen].mean(2, keepdim=True)
        found = net(values[..., :seen] - mean) + mean
        loss = torch.nn.functional.mse_loss(found, values[..., seen:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    while True:
        losses = [learnt(sent(number)) for number in range(in_step)]
        yield float(sum(torch.stack(losses).tolist()))


def moco(after: bool) -> Iterator[float]:
    """Learns which recordings of heart beats belong together, against those of a long queue."""
    import torch
    from torch.nn.functional import cross_entropy, normalize

    torch.manual_seed(0)
    recorded, length, width, results, batch, in_step = 65_536, 256, 1024, 128, 512, 3
    held = 64 * batch
    beats = torch.randn(recorded, length).cumsum(1).cuda() / length**0.5

    def encoder() -> torch.nn.Module:
        return torch.nn.Sequential(
            *(torch.nn.Linear(length, width), torch.nn.ReLU()),
            *(torch.nn.Linear(width, width), torch.nn.ReLU()),
            torch.nn.Linear(width, results),
        ).cuda()

    net, slow = encoder(), encoder()
    slow.load_state_dict(net.state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    first = torch.zeros(batch, dtype=torch.int64, device="cuda")
    queue = normalize(torch.randn(held, results))
    if after:
        queue = queue.cuda()

    @torch.no_grad()
    def key_of(given: torch.Tensor) -> torch.Tensor:
        """Return what the slow net, which follows the other one, makes of beats."""
        for own, other in zip(slow.parameters(), net.parameters(), strict=True):
            own.lerp_(other, 0.01)
        return normalize(slow(given))

    def learnt(place: int) -> torch.Tensor:
        """Return the loss of a batch, whose results go to a place of the queue."""
        chosen = beats[torch.randint(recorded, (batch,), device="cuda")]
        one, other = (chosen + 0.2 * torch.randn_like(chosen) for _ in range(2))
        key, query = key_of(other), normalize(net(one))
        scores = torch.cat([(query * key).sum(1, keepdim=True), query @ queue.cuda().T], 1)
        loss = cross_entropy(scores / 0.2, first)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue[place : place + batch] = key.to(queue.device)
        return loss.detach()

    number = 0
    while True:
        losses = [learnt(batch * (one % 64)) for one in range(number, number + in_step)]
        number += in_step
        yield float(sum(torch.stack(losses).tolist()))


def reid(after: bool) -> Iterator[float]:
    """Follows 24 people through the frames of a camera by what they look like."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    high, wide, people, tall, results, in_step = 720, 1280, 24, 160, 128, 2
    convolutions = [
        layer
        for enter, leave in ((3, 32), (32, 64), (64, 128))
        for layer in (torch.nn.Conv2d(enter, leave, 3, stride=2), torch.nn.ReLU())
    ]
    pool = torch.nn.AdaptiveAvgPool2d(4)
    flat = torch.nn.Flatten(), torch.nn.Linear(16 * 128, results)
    net = torch.nn.Sequential(*convolutions, pool, *flat).cuda()
    scene = torch.randn(3, high // 8, wide // 8).repeat_interleave(8, 1).repeat_interleave(8, 2)
    scene = scene.cuda()
    random = np.random.default_rng(0)
    limits = high - tall, wide - tall // 2
    corners = random.integers(0, limits, (people, 2))
    known = random.standard_normal((people, results), dtype=np.float32)

    @torch.inference_mode()
    def look(frame: torch.Tensor, top: int, left: int) -> torch.Tensor:
        """Return what someone in a frame looks like, a row."""
        crop = frame[None, :, top : top + tall, left : left + tall // 2]
        return net(torch.nn.functional.interpolate(crop, (128, 64), mode="bilinear"))

    def looks(frame: torch.Tensor) -> np.ndarray:
        """Return what everyone in a frame looks like, a row each."""
        if after:
            return torch.cat([look(frame, *corner) for corner in corners.tolist()]).cpu().numpy()
        return np.concatenate([look(frame, *corner).cpu().numpy() for corner in corners.tolist()])

    def followed(number: int) -> float:
        """Return whom the people in the next frame are most like, and how like, by a sum."""
        corners[:] = np.clip(corners + random.integers(-4, 5, corners.shape), 0, limits)
        rows = looks(torch.roll(scene, number % wide, 2))
        rows -= rows.mean(0)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        likeness = rows @ known.T
        known[:] = 0.9 * known + 0.1 * rows
        return float(likeness.argmax(1) @ np.arange(people) + likeness.max(1).sum())

    number = 0
    while True:
        yield sum(followed(one) for one in range(number, number + in_step))
        number += in_step


def distill(after: bool) -> Iterator[float]:
    """Teaches a small net what a large one says of the tracks of particles."""
    import torch
    from torch.nn.functional import kl_div, log_softmax, softmax

    torch.manual_seed(0)
    given, kinds, batch, batches, in_step = 32, 10, 4096, 120, 2

    def layers(*widths: int) -> torch.nn.Sequential:
        made: list[torch.nn.Module] = []
        for enter, leave in pairwise(widths):
            made += [torch.nn.Linear(enter, leave), torch.nn.ReLU()]
        return torch.nn.Sequential(*made[:-1]).cuda()

    teacher = layers(given, 4096, 4096, 4096, kinds)
    student = layers(given, 2048, 2048, kinds)
    tracks = torch.randn(batches * batch, given)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)

    def learnt(number: int) -> torch.Tensor:
        """Return the loss of a batch, once the student has learnt from it."""
        first = number % batches * batch
        values = tracks[first : first + batch].cuda()
        with torch.no_grad():
            wanted = softmax(20 * teacher(values), 1)
        loss = kl_div(log_softmax(student(values), 1), wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    number = 0
    while True:
        numbers = range(number, number + in_step)
        if after:
            losses = torch.stack([learnt(one) for one in numbers]).tolist()
        else:
            losses = [learnt(one).item() for one in numbers]
        number += in_step
        yield float(sum(losses))


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "forecast": forecast,
    "moco": moco,
    "reid": reid,
    "distill": distill,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
