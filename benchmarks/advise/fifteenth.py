"""A fifteenth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/fifteenth.py NAME --form before|after`` runs one. The CUDA C++ ones are
in fifteenth.cu. They, `CHANGES` and `TEMPTING` were written blind: without a look at how `advise`
works, or at what it said of other sets, and without a GPU. Times in comments are guesses. "keep"
stands for data that stay on the GPU, in place of a journey to the host and back or of being sent
anew.

========  ===========================================================  ===========================
name      before                                                       after
========  ===========================================================  ===========================
alerts    64 MiB of new documents by `.cuda()` from pinned memory,     the next batch is sent
          which waits for the batch before                             meanwhile
codec     `.cpu()` of the codes of each of 16 stages of a codec        the codes of all stages by
                                                                       one copy
slides    the host makes colours alike for many milliseconds, and      pinned, `non_blocking`: no
          sends 768 KiB of pageable memory                             gain is expected
fleet     what each of 16 sensors of all robots says by a copy of its  all by one copy from pinned
          own                                                          memory
spikes    which neurons fired by `.get()` after each block, for        to pinned memory; the host
          the host to count                                            counts a block later
tomogram  what a scanner counted is sent anew in each pass over it     it stays on the GPU as long
                                                                       as the patient is the same
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
    # 1.2 ms of the link, then as long on the GPU, in turns. Documents are new in each batch.
    "alerts": ({"prefetch"}, {"async", "prefetch"}, {"streams"}, {"async", "streams"}),
    # 19 KB after each 90 µs of kernels; the host then works on them while the GPU idles. The next
    # stage needs nothing of that.
    "codec": ({"defer"}, {"batch", "defer"}, {"batch"}),
    # A tenth of a millisecond for each batch, which takes the host ten; kernels are done by then.
    "slides": (),
    # 16 copies of 2 to 262 KB, each of which the host waits for; all are there at once.
    "fleet": ({"pin", "batch"}, {"batch"}),
    # 3 MB to new pageable memory after each millisecond of kernels, and a millisecond of the host,
    # while the GPU idles. Nothing on the GPU needs what comes of it.
    "spikes": ({"pin", "async"},),
    # 3 MB of pageable memory for each of eight subsets, around some 300 µs of kernels, twelve times
    # the same.
    "tomogram": ({"keep"},),
    # Of 24 MB for each tree, 8 MB go up right after they came down.
    "merkle": ({"keep"},),
    # 32 bytes of each of 120 order books, by a call each, after a kernel for all of them.
    "quotes": ({"batch"}, {"pin", "batch"}),
    # Four threads, each with a stream, send 4 MiB of pageable memory for each die: copies into the
    # driver's memory take much longer than the kernel.
    "wafer": ({"pin"}, {"pin", "async"}),
    # 8 bytes to the stack after each two kernels of some microseconds; the host needs them to
    # know how long the next moment may be.
    "fracture": ({"mapped"}, {"pin", "mapped"}),
    # All is pinned and asynchronous, but the host waits for a block before it starts the next one:
    # 32 MiB up, kernels, 4 MiB down and the host's work take turns.
    "waveforms": (
        {"streams"},
        {"prefetch"},
        {"async", "streams"},
        {"prefetch", "streams"},
        {"async", "prefetch"},
    ),
    # 256 bytes up and 8 down, both pageable, around more than a millisecond of kernels.
    "phylo": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"slides": {"pin", "async"}, "phylo": {"pin"}}
IN_CUDA = ("merkle", "quotes", "wafer", "fracture", "waveforms", "phylo")
IN_PYTORCH = ("alerts", "codec", "slides", "fleet")


def alerts(after: bool) -> Iterator[float]:
    """Finds which standing questions new documents answer, by vectors of both."""
    import torch

    torch.manual_seed(0)
    documents, width, questions, stored, in_step, limit = 32768, 1024, 4096, 6, 4, 3.5
    shape = (documents, width)
    asked = torch.randn(questions, width, device="cuda").div_(width**0.5).half()
    ring = [torch.empty(shape, dtype=torch.half, pin_memory=True) for _ in range(stored)]
    for batch in ring:
        batch.copy_(torch.randn(shape, device="cuda").half())
    places = [torch.empty(shape, dtype=torch.half, device="cuda") for _ in range(2 * after)]
    copies, main = torch.cuda.Stream(), torch.cuda.current_stream()
    there, free = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))

    def received(number: int) -> torch.Tensor:
        """Return a batch as it came in, the first document of which is its number."""
        batch = ring[number % stored]
        batch[0].fill_(number / 4096)
        return batch

    def send(number: int) -> None:
        """Begin to send a batch, once the kernels before need its place no more."""
        batch, at = received(number), number % 2
        with torch.cuda.stream(copies):
            copies.wait_event(free[at])
            places[at].copy_(batch, non_blocking=True)
            there[at].record(copies)

    def next_batch(number: int) -> torch.Tensor:
        if not after:
            return received(number).cuda()
        send(number + 1)
        main.wait_event(there[number % 2])
        return places[number % 2]

    number = 0
    torch.cuda.synchronize()
    if after:
        send(0)
    while True:
        answers = torch.zeros(questions, dtype=torch.long, device="cuda")
        best = torch.zeros((), device="cuda")
        for _ in range(in_step):
            scores = next_batch(number) @ asked.T
            if after:
                free[number % 2].record(main)
            answers += (scores > limit).sum(dim=0)
            best += scores.amax(dim=1).float().mean()
            number += 1
        counts = answers.tolist()
        yield sum(count * (1 + one % 7) for one, count in enumerate(counts)) + float(best)


def codec(after: bool) -> Iterator[float]:
    """Encodes sound: a net finds what to say of each moment, and 16 stages say it ever better."""
    import numpy as np
    import torch
    from torch.nn.functional import elu, layer_norm

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    clips, samples, width, stages, symbols, stored, in_step = 8, 96000, 128, 16, 1024, 5, 2
    widths, strides = (32, 64, 96, 128, width), (2, 4, 5, 8)
    enter = torch.nn.Conv1d(1, widths[0], 7, padding=3).cuda()
    layers = [
        torch.nn.Conv1d(one, two, 2 * by, stride=by, padding=(by + 1) // 2).cuda()
        for one, two, by in zip(widths, widths[1:], strides, strict=False)
    ]
    books = [torch.randn(symbols, width, device="cuda") * 0.28 * 0.96**i for i in range(stages)]
    squares = [(book**2).sum(dim=1) for book in books]
    random = np.random.default_rng(0)
    recorded = torch.empty(stored, clips, 1, samples, dtype=torch.int16, pin_memory=True)
    pitch = random.uniform(0.01, 0.3, (stored, clips, 1, 1)) * np.arange(samples)
    noise = random.standard_normal(recorded.shape, dtype=np.float32)
    recorded.copy_(torch.from_numpy(8000 * np.sin(pitch) + 2000 * noise))
    chances = np.ones((stages, symbols))  # of each symbol, as the host's coder expects them

    def heard(number: int) -> torch.Tensor:
        """Return clips as the microphones leave them, pinned, on the GPU."""
        clip = recorded[number % stored]
        clip[:, :, 0] = number
        return clip.cuda(non_blocking=True)

    def moments_of(clip: torch.Tensor) -> torch.Tensor:
        """Return what there is to say of each moment (moments, width)."""
        state = enter(clip.float() / 32768)
        for layer in layers:
            state = layer(elu(state))
        return layer_norm(state.transpose(1, 2).reshape(-1, width), (width,))

    def bits_of(stage: int, codes: np.ndarray) -> float:
        """Return how many bits a stage's codes take, and learn what to expect of the next."""
        own = chances[stage]
        bits = -np.log2(own[codes] / own.sum()).sum()
        own *= 0.9
        own += 0.1 + np.bincount(codes, minlength=symbols)
        return float(bits)

    @torch.inference_mode()
    def encode(number: int) -> float:
        """Return how many bits a batch takes."""
        rest = moments_of(heard(number))
        bits, found = 0.0, []
        for stage, (book, square) in enumerate(zip(books, squares, strict=True)):
            codes = torch.addmm(square, rest, book.T, alpha=-2).argmin(dim=1)
            rest = rest - book[codes]
            if after:
                found.append(codes)
            else:
                bits += bits_of(stage, codes.cpu().numpy())
        if after:
            for stage, own in enumerate(torch.stack(found).cpu().numpy()):
                bits += bits_of(stage, own)
        return bits

    number = 0
    while True:
        yield sum(encode(one) for one in range(number, number + in_step))
        number += in_step


def slides(after: bool) -> Iterator[float]:
    """Looks for what is ill on slides of tissue, once the host made their colours alike."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    large, side, tiles, in_step, steep = 2048, 128, 16, 3, 99
    random = np.random.default_rng(0)
    slide = random.integers(40, 250, (large // 8, large // 8, 3), dtype=np.uint8)
    slide = slide.repeat(8, axis=0).repeat(8, axis=1)
    slide += random.integers(0, 6, slide.shape, dtype=np.uint8)
    logs = -np.log((np.arange(256, dtype=np.float32) + 1) / 256)
    stains = np.array([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11], [0.27, 0.57, 0.78]], np.float32)
    apart = np.linalg.inv(stains).astype(np.float32)
    wanted = np.array([1.9, 1.0, 0.6], np.float32)
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 32, 3, stride=2, padding=1), torch.nn.ReLU()),
        *(torch.nn.Conv2d(32, 64, 3, stride=2, padding=1), torch.nn.ReLU()),
        *(torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU()),
        *(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 1)),
    ).cuda()
    shape = (tiles, side, side, 3)
    # One for each batch of a step, at the end of which the host waits for all of them.
    places = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(in_step)]

    def cut() -> np.ndarray:
        """Return tiles of the slide (tiles, side, side, 3), of the places next to look at."""
        corners = random.integers(0, large - side, (tiles, 2)).tolist()
        return np.stack([slide[top : top + side, left : left + side] for top, left in corners])

    def alike(cuts: np.ndarray) -> np.ndarray:
        """Return tiles as if as much of each stain were in all of them."""
        amounts = logs[cuts] @ apart
        strong = np.percentile(amounts, steep, axis=(1, 2), keepdims=True).astype(np.float32)
        amounts *= wanted / np.maximum(strong, 0.1)
        return np.clip(256 * np.exp(-(amounts @ stains)) - 1, 0, 255).astype(np.uint8)

    def sent(batch: int) -> torch.Tensor:
        """Return a batch of tiles on the GPU."""
        found = torch.from_numpy(alike(cut()))
        if not after:
            return found.cuda()
        places[batch].copy_(found)
        return places[batch].cuda(non_blocking=True)

    @torch.inference_mode()
    def ill(above: torch.Tensor) -> torch.Tensor:
        """Return the chance of each tile to show what is ill."""
        return net(above.permute(0, 3, 1, 2).float() / 255 - 0.5).sigmoid()[:, 0]

    while True:
        found = [ill(sent(batch)) for batch in range(in_step)]
        yield sum(1000 * chance for chance in torch.cat(found).tolist())


#: How many numbers each sensor of a robot of `fleet` says.
SENSORS = {
    "odometry": 6,
    "inertia": 60,
    "wheels": 8,
    "place": 3,
    "battery": 2,
    "goal": 2,
    "near": 256,
    "sonar": 12,
    "scan": 180,
    "bumpers": 6,
    "arm": 14,
    "gripper": 3,
    "motors": 24,
    "said": 4,
    "clock": 4,
    "weather": 5,
}


def fleet(after: bool) -> Iterator[float]:
    """Steers robots that deliver parcels, by a net that reads all their sensors."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    robots, width, heard, in_step, moment, close = 256, 128, 16, 8, 0.1, 1.0
    total = robots * sum(SENSORS.values())
    random = np.random.default_rng(0)
    tables = {
        name: random.standard_normal((heard, robots, count), dtype=np.float32)
        for name, count in SENSORS.items()
    }
    packed = torch.empty(total, pin_memory=after)
    sizes = [robots * count for count in SENSORS.values()]
    arrays = [
        part.view(robots, -1).numpy() if after else np.empty((robots, count), np.float32)
        for part, count in zip(packed.split(sizes), SENSORS.values(), strict=True)
    ]
    sensors = dict(zip(SENSORS, arrays, strict=True))
    encoders = [torch.nn.Linear(count, width).cuda() for count in SENSORS.values()]
    cell = torch.nn.GRUCell(width, width).cuda()
    leave = torch.nn.Linear(width, 2).cuda()
    memory = torch.zeros(robots, width, device="cuda")
    places = random.uniform(-20, 20, (robots, 2)).astype(np.float32)
    goals = random.uniform(-20, 20, (robots, 2)).astype(np.float32)
    headings = np.zeros(robots, np.float32)
    charges = np.ones(robots, np.float32)

    def listen(tick: int) -> None:
        """Put down what each sensor says: much of it depends on how well a robot moves."""
        level = 0.5 + 0.5 * charges[:, None]
        for name, array in sensors.items():
            np.multiply(tables[name][tick % heard], level, out=array)
        sensors["place"][:, :2] = places / 20
        sensors["place"][:, 2] = headings
        sensors["goal"][:] = (goals - places) / 20
        sensors["battery"][:, 0] = charges

    def sensed() -> list[torch.Tensor]:
        """Return what each sensor says on the GPU (robots, numbers)."""
        if not after:
            return [torch.from_numpy(array).cuda() for array in arrays]
        above = packed.cuda(non_blocking=True)
        return [part.view(robots, -1) for part in above.split(sizes)]

    @torch.inference_mode()
    def commands() -> np.ndarray:
        """Return how fast each robot is to go and to turn."""
        nonlocal memory
        state = torch.zeros(robots, width, device="cuda")
        for encoder, given in zip(encoders, sensed(), strict=True):
            state += encoder(given)
        memory = cell(state.relu(), memory)
        return leave(memory).tanh().cpu().numpy()

    def move(wanted: np.ndarray) -> int:
        """Move the robots; return how many arrived, which get new goals."""
        nonlocal headings
        headings = (headings + moment * wanted[:, 1]) % 6.2831855
        ahead = np.stack([np.cos(headings), np.sin(headings)], axis=1)
        places[:] = np.clip(places + moment * wanted[:, :1] * ahead, -20, 20)
        charges[:] -= 0.001 * np.abs(wanted[:, 0])
        charges[charges < 0.2] = 1  # at a station
        arrived = np.flatnonzero(((places - goals) ** 2).sum(axis=1) < close)
        goals[arrived] = random.uniform(-20, 20, (len(arrived), 2))
        return len(arrived)

    tick = 0
    while True:
        arrived = 0
        for _ in range(in_step):
            listen(tick)
            arrived += move(commands())
            tick += 1
        yield float(places.sum(dtype=np.float64) + headings.sum(dtype=np.float64)) + arrived


SPIKES = r"""
// Takes each neuron on by a moment: what it gets from those that fired, and noise, add up until it
// fires; sources are (inputs, neurons).
extern "C" __global__ void live(const unsigned char* before, const int* sources, int inputs,
                                int excite, float drive, unsigned int time, int neurons,
                                float* volts, unsigned char* fired) {
  const int own = blockIdx.x * blockDim.x + threadIdx.x;
  if (own >= neurons) return;
  float sum = 0;
#pragma unroll 8
  for (int i = 0; i < inputs; ++i)
    if (before[sources[i * neurons + own]]) sum += i < excite ? 0.03f : -0.12f;
  unsigned int bits = own * 2654435761u ^ time * 2246822519u;
  bits ^= bits >> 15;
  bits *= 2246822519u;
  bits ^= bits >> 13;
  bits *= 3266489917u;
  bits ^= bits >> 16;
  const float volt = 0.95f * volts[own] + drive * ((bits >> 8) * (1 / 16777216.0f)) + sum;
  const bool fires = volt > 1;
  volts[own] = fires ? 0 : fmaxf(volt, -1);
  fired[own] = fires;
}
"""


def spikes(after: bool) -> Iterator[float]:
    """Simulates neurons, and counts on the host how groups of them fire together."""
    import cupy
    import cupyx
    import numpy as np

    neurons, inputs, excite, ticks, groups, in_step = 32768, 64, 52, 100, 64, 8
    random = np.random.default_rng(0)
    live = cupy.RawModule(code=SPIKES).get_function("live")
    sources = cupy.asarray(random.integers(0, neurons, (inputs, neurons), dtype=np.int32))
    volts = cupy.asarray(random.uniform(0, 1, neurons).astype(np.float32))
    raster = cupy.zeros((ticks, neurons), np.uint8)
    rows = [raster[tick] for tick in range(ticks)]
    places = [cupyx.empty_pinned(raster.shape, np.uint8) for _ in range(2)]
    there = [cupy.cuda.Event(disable_timing=True) for _ in places]

    def take_on(number: int) -> None:
        """Launch the moments of a block; the first one sees the last one of the block before."""
        constants = sources, np.int32(inputs), np.int32(excite)
        for tick, row in enumerate(rows):
            time = number * ticks + tick
            drive = np.float32(0.1 + 0.02 * np.sin(0.01 * time))
            own = drive, np.uint32(time), np.int32(neurons), volts, row
            live((neurons // 256,), (256,), (rows[tick - 1], *constants, *own))

    def counted(fired: np.ndarray) -> float:
        """Return how unevenly each group fires, and how often they do so at the same time."""
        counts = fired.reshape(ticks, groups, -1).sum(axis=2, dtype=np.uint32).astype(np.float64)
        mean = counts.mean(axis=0)
        together = counts.sum(axis=1)
        uneven = (counts.var(axis=0) / np.maximum(mean, 1e-3)).sum()
        return float(uneven + together.var() + counts.sum())

    def fetch(number: int) -> None:
        """Begin to fetch a block."""
        raster.get(out=places[number % 2], blocking=False)
        there[number % 2].record()

    def look_at(number: int) -> float:
        there[number % 2].synchronize()
        return counted(places[number % 2])

    number = 0
    while True:
        total = 0.0
        for turn in range(in_step):
            take_on(number)
            if not after:
                total += counted(raster.get())
            else:
                fetch(number)
                if turn > 0:
                    total += look_at(number - 1)
            number += 1
        if after:
            total += look_at(number - 1)
        yield total


TOMOGRAM = r"""
constexpr int kSide = 128, kSlices = 256;  // of the volume: rows, columns and slices

// Adds up what lies on the line of each detector in each view (views, detectors, slices); a block
// for a line, a thread for a slice. `turns` are cosines and sines of the views.
extern "C" __global__ void project(const float* volume, const float* turns, float* lines) {
  const int slice = threadIdx.x, detector = blockIdx.x, view = blockIdx.y;
  const float c = turns[2 * view], s = turns[2 * view + 1];
  const float middle = (kSide - 1) * 0.5f, off = detector - middle;
  const bool tall = fabsf(c) > fabsf(s);
  float sum = 0;
  for (int i = 0; i < kSide; ++i) {
    const float along = i - middle;
    const float far = tall ? (along - off * s) / c : (off * c - along) / s;
    const float across = (tall ? off * c - far * s : off * s + far * c) + middle;
    const int low = static_cast<int>(floorf(across));
    if (low < 0 || low + 1 >= kSide) continue;
    const float part = across - low;
    const int at = tall ? i * kSide + low : low * kSide + i, next = at + (tall ? 1 : kSide);
    sum += (1 - part) * volume[at * kSlices + slice] + part * volume[next * kSlices + slice];
  }
  lines[(view * kSide + detector) * kSlices + slice] = sum / fmaxf(fabsf(c), fabsf(s));
}

// Adds up what the lines through each place of the volume say; a block for a row and column.
__device__ float said_of(const float* lines, const float* turns, int views) {
  const float middle = (kSide - 1) * 0.5f, x = blockIdx.x - middle, y = blockIdx.y - middle;
  float sum = 0;
  for (int view = 0; view < views; ++view) {
    const float across = x * turns[2 * view] + y * turns[2 * view + 1] + middle;
    const int low = static_cast<int>(floorf(across));
    if (low < 0 || low + 1 >= kSide) continue;
    const float part = across - low;
    const float* line = lines + (view * kSide + low) * kSlices + threadIdx.x;
    sum += (1 - part) * line[0] + part * line[kSlices];
  }
  return sum;
}

extern "C" __global__ void spread(const float* lines, const float* turns, int views,
                                  float* volume) {
  const int at = (blockIdx.y * kSide + blockIdx.x) * kSlices + threadIdx.x;
  volume[at] = said_of(lines, turns, views);
}

// Makes the volume more like what was counted, of which `ratios` to what it would give tell.
extern "C" __global__ void improve(const float* ratios, const float* turns, int views,
                                   const float* weights, float* volume) {
  const int at = (blockIdx.y * kSide + blockIdx.x) * kSlices + threadIdx.x;
  const float weight = weights[at];
  volume[at] *= weight < 0.01f ? 0 : said_of(ratios, turns, views) / weight;
}
"""


def tomogram(after: bool) -> Iterator[float]:
    """Finds what is in patients from what a scanner counts: subsets of its views, in passes."""
    import cupy
    import numpy as np

    side, slices, subsets, views, passes, patients = 128, 256, 8, 24, 12, 2
    random = np.random.default_rng(0)
    module = cupy.RawModule(code=TOMOGRAM)
    project, spread, improve = map(module.get_function, ("project", "spread", "improve"))
    over_volume = (side, side), (slices,)
    count = np.int32(views)
    # A subset's views are as far apart as they can be.
    angles = (np.arange(subsets)[:, None] + subsets * np.arange(views)) * np.pi / subsets / views
    turns = cupy.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=2), dtype=np.float32)
    lines = cupy.empty((views, side, slices), np.float32)
    volume = cupy.ones((side, side, slices), np.float32)
    weights = cupy.empty((subsets, side, side, slices), np.float32)
    place = cupy.empty((subsets if after else 1, views, side, slices), np.float32)

    def project_all(given: cupy.ndarray, subset: int) -> None:
        """Put down what a subset of views gives of a volume."""
        project((side, views), (slices,), (given, turns[subset], lines))

    def counted_of(patient: int) -> np.ndarray:
        """Return what the scanner counts (subsets, views, detectors, slices)."""
        across = np.arange(side) - (side - 1) / 2
        inside = np.hypot(across[:, None], 1.3 * across) < 45
        filled = np.repeat(inside[:, :, None].astype(np.float32), slices, axis=2)
        for _ in range(12):
            top, left, first = random.integers((36, 36, 0), (80, 80, 200)).tolist()
            filled[top : top + 12, left : left + 12, first : first + 56] += 2 + patient
        above, found = cupy.asarray(filled), []
        for subset in range(subsets):
            project_all(above, subset)
            found.append(lines.get())
        exact = np.stack(found)
        noise = random.standard_normal(exact.shape, dtype=np.float32)
        return np.maximum(exact + 0.3 * np.sqrt(exact) * noise, 0)

    def measured(patient: int, turn: int, subset: int) -> cupy.ndarray:
        """Return what was counted in a subset's views, on the GPU."""
        at = subset if after else 0
        if turn == 0 or not after:
            place[at].set(counted[patient][subset])
        return place[at]

    def improve_by(subset: int, wanted: cupy.ndarray) -> None:
        project_all(volume, subset)
        ratios = wanted / cupy.maximum(lines, np.float32(0.01))
        improve(*over_volume, (ratios, turns[subset], count, weights[subset], volume))

    counted = [counted_of(patient) for patient in range(patients)]
    lines.fill(1)
    for subset in range(subsets):
        spread(*over_volume, (lines, turns[subset], count, weights[subset]))
    number = 0
    while True:
        patient, turn = number // passes % patients, number % passes
        if turn == 0:
            volume.fill(1)
        for subset in range(subsets):
            improve_by(subset, measured(patient, turn, subset))
        picture = volume[:, :, slices // 2].get()  # shown to who waits for it
        number += 1
        yield float(picture.sum(dtype=np.float64)) + 1000 * float(picture.max())


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "alerts": alerts,
    "codec": codec,
    "slides": slides,
    "fleet": fleet,
    "spikes": spikes,
    "tomogram": tomogram,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
