"""A sixth set of programs for the closed loop of advise, in PyTorch and CuPy.

``python benchmarks/advise/sixth.py NAME --form before|after`` runs one. The CUDA C++ ones are
in sixth.cu. They, `CHANGES` and `TEMPTING` were written without a look at the code of `advise`,
or at what it says of them; nor had they run on a GPU. What a comment here says of time is what
their writer expected.

========  =========================================================  ===========================
name      before                                                     after
========  =========================================================  ===========================
experts   weights of the experts that the router chose, copied from  pinned
          pageable memory when needed
adam      gradients by `.cpu()`, Adam on the CPU, weights back       both by pinned memory
norms     norms of 146 gradients and weights, `.item()` each         read at the end of a step
cameras   pinned, eight cameras one after the other on one stream    on four streams
loader    `DataLoader`, each image changed by the CPU, which is      its `pin_memory`: no gain
          what takes long                                            is expected
kmeans    number of changed labels looked at after each iteration    after every tenth
channels  128 channels set one by one, results got one by one        one pinned copy each way
========  =========================================================  ===========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from program_command import run_named

if TYPE_CHECKING:
    import cupy
    import torch

#: By program, the sets of steps that name what its form ``after`` does, the plainest first; none
#: where no advice is worth it.
CHANGES: dict[str, tuple[set[str], ...]] = {
    # Nearly all of a step is 16 MiB an expert, at the rate of pageable memory. Which experts a
    # layer needs is not known before the one above is done, so that none is fetched ahead; that
    # the host does not wait for each matrix is little.
    "experts": ({"pin"}, {"pin", "async"}),
    # `.cpu()` copies into new pages each time, which costs more than the link. The CPU needs all
    # gradients and the next step all weights, so that not waiting for each tensor is little.
    "adam": ({"pin"}, {"pin", "async"}),
    # Nothing looks at a norm before all are written down. To stack them on the GPU and copy them
    # at once is both to defer 292 readbacks and to batch them.
    "norms": ({"defer"}, {"batch"}),
    # Memory is pinned and the calls are asynchronous already; only their stream puts a camera's
    # copy in behind the kernels of the camera before. Its copy sent ahead would do as well.
    "cameras": ({"streams"}, {"prefetch"}),
    # A batch of 96 KiB takes below 1 % of what the CPU works on it, and the GPU is long done with
    # the batch before. Memory that is pinned must be filled by one copy more.
    "loader": (),
    # Without a changed label an iteration changes nothing, so that up to nine too many are
    # harmless, and the host may launch ten without a wait.
    "kmeans": ({"defer"},),
    # What the buffers of all channels are made of matters less than the number of copies.
    "channels": ({"batch"}, {"pin", "batch"}),
    # Two buffers are there, but the host waits for copy and kernel before it reads on: it should
    # wait only for the buffer that it fills, which is to send the next chunk ahead.
    "reader": ({"async"}, {"prefetch"}),
    # 40 bytes in and 8 out around a kernel of microseconds, and the host needs the result to
    # choose the next model: no copy can wait or be joined, but the kernel can read and write
    # host memory by itself.
    "fit": ({"mapped"}, {"pin", "mapped"}),
    # The thread that writes snapshots copies to pageable memory slowly, but in half of the time
    # that the kernels take, which nothing delays.
    "writer": (),
}
#: What the form ``after`` does of a program in which nothing is to be gained.
TEMPTING: dict[str, set[str]] = {"loader": {"pin", "async"}, "writer": {"pin"}}
IN_CUDA = ("reader", "fit", "writer")
IN_PYTORCH = ("experts", "adam", "norms", "cameras", "loader")


def experts(after: bool) -> Iterator[float]:
    """Four layers of a mixture of eight experts each, which lie on the host; four tokens a step."""
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    layers, number_of_experts, width, inner, tokens = 4, 8, 1024, 2048, 4

    def weight(rows: int, columns: int) -> torch.Tensor:
        bound = (3 / rows) ** 0.5
        return torch.empty(rows, columns, pin_memory=after).uniform_(-bound, bound)

    pools = [
        [(weight(width, inner), weight(inner, width)) for _ in range(number_of_experts)]
        for _ in range(layers)
    ]
    routers = [torch.randn(width, number_of_experts).cuda() for _ in range(layers)]
    batches = torch.randn(8, tokens, width).cuda()

    @torch.inference_mode()
    def forward(hidden: torch.Tensor) -> torch.Tensor:
        for router, pool in zip(routers, pools, strict=True):
            normed = functional.layer_norm(hidden, (width,))
            choice = (normed @ router).argmax(1)
            mixed = torch.zeros_like(hidden)
            for expert in sorted(set(choice.tolist())):
                up, down = (matrix.to("cuda", non_blocking=after) for matrix in pool[expert])
                found = functional.relu(normed @ up) @ down
                mixed = torch.where((choice == expert).unsqueeze(1), found, mixed)
            hidden = hidden + mixed
        return hidden

    number = 0
    while True:
        hidden = forward(batches[number % len(batches)])
        number += 1
        yield float(hidden.square().mean())


def adam(after: bool) -> Iterator[float]:
    """Training whose Adam, with weights of 32 MiB and their moments, is on the CPU."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(1024, 2048),
        torch.nn.GELU(),
        torch.nn.Linear(2048, 2048),
        torch.nn.GELU(),
        torch.nn.Linear(2048, 1024),
    ).cuda()
    inputs = torch.randn(4, 1024, 1024).cuda()
    wanted = torch.randn(4, 1024, 1024).cuda()
    weights = list(net.parameters())
    masters = [weight.detach().cpu() for weight in weights]
    if after:
        masters = [master.pin_memory() for master in masters]
    gradients = [torch.empty_like(master, pin_memory=True) for master in masters] if after else []
    optimiser = torch.optim.Adam(masters, lr=1e-5, fused=True)
    number = 0
    while True:
        batch = number % len(inputs)
        loss = (net(inputs[batch]) - wanted[batch]).square().mean()
        net.zero_grad()
        loss.backward()
        if after:
            for master, gradient, weight in zip(masters, gradients, weights, strict=True):
                master.grad = gradient.copy_(weight.grad, non_blocking=True)
            torch.cuda.current_stream().synchronize()
        else:
            for master, weight in zip(masters, weights, strict=True):
                master.grad = weight.grad.cpu()
        optimiser.step()
        with torch.no_grad():
            for master, weight in zip(masters, weights, strict=True):
                weight.copy_(master, non_blocking=after)
        number += 1
        yield loss.item()  # waits for the weights, too, before the optimiser changes them


def norms(after: bool) -> Iterator[float]:
    """Trains a transformer on series; the norms of all gradients and weights are written down."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # its gradients differ from run to run
    series, length, width = 16, 128, 256
    layers = [
        torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        for _ in range(12)
    ]
    net = torch.nn.Sequential(
        torch.nn.Linear(8, width, bias=False), *layers, torch.nn.Linear(width, 8, bias=False)
    ).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-6)
    values = torch.randn(series, length + 1, 8).cumsum(1).cuda() / length**0.5
    while True:
        loss = (net(values[:, :-1]) - values[:, 1:]).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        written = []
        for weight in net.parameters():
            for one in (weight.grad, weight.detach()):
                norm = torch.linalg.vector_norm(one)
                written.append(norm if after else norm.item())
        optimiser.step()
        if after:
            written = torch.stack(written).tolist()
        yield sum(written) + loss.item()


def cameras(after: bool) -> Iterator[float]:
    """Marks what the pictures of eight cameras show: 24 MiB in, a mask of 8 MiB out for each."""
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    height, width, coarse = 2160, 3840, 8
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, stride=4, padding=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 8, 1),
    ).cuda()
    pictures = [torch.empty(3, height, width, dtype=torch.uint8).pin_memory() for _ in range(8)]
    view = torch.randint(0, 256, (3, height, width), dtype=torch.uint8)
    for number, picture in enumerate(pictures):  # the drivers of the cameras fill them
        picture.copy_(view.roll(97 * number, 2))
    masks = [torch.empty(height, width, dtype=torch.uint8).pin_memory() for _ in pictures]
    streams = [torch.cuda.Stream() for _ in range(4)] if after else [torch.cuda.current_stream()]

    @torch.inference_mode()
    def mark(picture: torch.Tensor, mask: torch.Tensor) -> None:
        scaled = picture.to("cuda", non_blocking=True).unsqueeze(0).float() / 255
        classes = net(scaled)[0].argmax(0).to(torch.uint8)
        wide = classes[:, None, :, None].expand(-1, coarse, -1, coarse)
        mask.copy_(wide.reshape(height, width), non_blocking=True)

    torch.cuda.synchronize()
    while True:
        for number, (picture, mask) in enumerate(zip(pictures, masks, strict=True)):
            with torch.cuda.stream(streams[number % len(streams)]):
                mark(picture, mask)
        torch.cuda.synchronize()
        yield float(sum(int(mask[::16, ::16].sum()) for mask in masks))


class Augmented:
    """Small images, each cropped, mirrored, blurred, brightened and partly hidden when read."""

    def __init__(self, count: int) -> None:
        import torch

        self.images = torch.randint(0, 256, (count, 3, 40, 40), dtype=torch.uint8)
        self.classes = torch.randint(0, 10, (count,)).tolist()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        import torch

        x, y, mirrored, left, top, bright = torch.randint(0, 8, (6,)).tolist()
        image = self.images[number, :, y : y + 32, x : x + 32].float() / 255
        if mirrored < 4:
            image = image.flip(2)
        image = 0.5 * image + 0.5 * torch.nn.functional.avg_pool2d(image, 3, 1, 1)
        image = (image * (0.8 + 0.05 * bright)).clamp(0, 1)
        grey = image.mean(0, keepdim=True)
        image = grey + (image - grey) * 1.2
        image[:, 3 * top : 3 * top + 8, 3 * left : 3 * left + 8] = 0.5
        return (255 * image).to(torch.uint8), self.classes[number]


def loader(after: bool) -> Iterator[float]:
    """Learns from 160 small images a step, in five batches; their loss is read once."""
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 64, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * 36, 10),
    ).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-4)
    batches = torch.utils.data.DataLoader(Augmented(160), batch_size=32, pin_memory=after)
    while True:
        total = torch.zeros((), device="cuda")
        for images, classes in batches:
            given = images.to("cuda", non_blocking=after).float() / 127.5 - 1
            wanted = classes.to("cuda", non_blocking=after)
            loss = torch.nn.functional.cross_entropy(net(given), wanted)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.detach()
        yield total.item()


KMEANS = """
constexpr int kKinds = 64, kWidth = 8;
constexpr float kScale = 65536;  // sums are of integers: the order of adding does not matter

extern "C" __global__ void assign(const float* points, const float* centres, int* labels,
                                  unsigned long long* sums, int* sizes, int* changed, int count) {
  __shared__ float places[kKinds * kWidth];
  __shared__ int mine[kKinds * kWidth], members[kKinds];
  for (int i = threadIdx.x; i < kKinds * kWidth; i += blockDim.x) {
    places[i] = centres[i];
    mine[i] = 0;
    if (i < kKinds) members[i] = 0;
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float point[kWidth], nearest = 1e30f;
    int label = 0;
    for (int k = 0; k < kWidth; ++k) point[k] = points[i * kWidth + k];
    for (int kind = 0; kind < kKinds; ++kind) {
      float distance = 0;
      for (int k = 0; k < kWidth; ++k) {
        const float apart = point[k] - places[kind * kWidth + k];
        distance += apart * apart;
      }
      if (distance < nearest) nearest = distance, label = kind;
    }
    if (labels[i] != label) atomicAdd(changed, 1);
    labels[i] = label;
    atomicAdd(members + label, 1);
    for (int k = 0; k < kWidth; ++k)
      atomicAdd(mine + label * kWidth + k, __float2int_rn(point[k] * kScale));
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kKinds * kWidth; i += blockDim.x) {
    atomicAdd(sums + i, static_cast<unsigned long long>(static_cast<long long>(mine[i])));
    if (i < kKinds) atomicAdd(sizes + i, members[i]);
  }
}

// A block a centre; an empty one stays where it is.
extern "C" __global__ void move(float* centres, unsigned long long* sums, int* sizes) {
  const int i = blockIdx.x * kWidth + threadIdx.x, size = sizes[blockIdx.x];
  if (size > 0) centres[i] = static_cast<double>(static_cast<long long>(sums[i])) / kScale / size;
  sums[i] = 0;
  __syncthreads();
  if (threadIdx.x == 0) sizes[blockIdx.x] = 0;
}
"""


def kmeans(after: bool) -> Iterator[float]:
    """Sorts 128 Ki points into 64 kinds, until no label changes, or by 200 iterations."""
    import cupy
    import numpy as np

    count, kinds, width, most = 1 << 17, 64, 8, 200
    module = cupy.RawModule(code=KMEANS)
    assign, move = module.get_function("assign"), module.get_function("move")
    random = np.random.default_rng(0)
    middles = random.uniform(-1, 1, (kinds, width))
    given = middles[random.integers(0, kinds, count)] + random.normal(0, 0.5, (count, width))
    points = cupy.asarray(np.clip(given, -4, 4), dtype=cupy.float32)
    sums = cupy.zeros((kinds, width), dtype=cupy.uint64)
    sizes, changed = cupy.zeros(kinds, dtype=cupy.int32), cupy.zeros(1, dtype=cupy.int32)
    labels = cupy.empty(count, dtype=cupy.int32)
    between = 10 if after else 1
    while True:
        centres = points[:kinds].copy()
        labels.fill(-1)
        for iteration in range(1, most + 1):
            changed.fill(0)
            arguments = (points, centres, labels, sums, sizes, changed, np.int32(count))
            assign((128,), (256,), arguments)
            move((kinds,), (width,), (centres, sums, sizes))
            if iteration % between == 0 and int(changed[0]) == 0:
                break
        yield float(cupy.abs(centres).sum())


def channels(after: bool) -> Iterator[float]:
    """Envelopes of a band of 128 channels, each of 32 KiB in an array of its own; four chunks."""
    import cupy
    import cupyx
    import numpy as np

    count, samples, mean_of, low, high = 128, 8192, 16, 400, 1200
    random = np.random.default_rng(0)
    chunks = [
        [random.standard_normal(samples, dtype=np.float32) for _ in range(count)] for _ in range(4)
    ]
    band = cupy.zeros(samples, dtype=cupy.float32)
    band[low:high] = 2  # of the frequencies above zero alone, as an envelope needs
    block = cupy.empty((count, samples), dtype=cupy.float32)
    gathered = cupyx.empty_pinned((count, samples), np.float32)
    results = cupyx.empty_pinned((count, samples // mean_of), np.float32)
    while True:
        total = 0.0
        for chunk in chunks:
            if after:
                np.stack(chunk, out=gathered)
                block.set(gathered)
            else:
                for row, channel in zip(block, chunk, strict=True):
                    row.set(channel)
            envelopes = envelopes_of(block, band, mean_of)
            # Waits, so that the buffers can be filled again.
            found = envelopes.get(out=results) if after else [row.get() for row in envelopes]
            total += float(np.max(found, axis=1).sum(dtype=np.float64))
        yield total


def envelopes_of(block: cupy.ndarray, band: cupy.ndarray, mean_of: int) -> cupy.ndarray:
    """Return the envelope in a band of each row of (channels, samples), a mean of each few."""
    import cupy

    analytic = cupy.fft.ifft(cupy.fft.fft(block, axis=1) * band, axis=1)
    return cupy.abs(analytic).reshape(len(block), -1, mean_of).mean(axis=2)


PROGRAMS: dict[str, Callable[[bool], Iterator[float]]] = {
    "experts": experts,
    "adam": adam,
    "norms": norms,
    "cameras": cameras,
    "loader": loader,
    "kmeans": kmeans,
    "channels": channels,
}


if __name__ == "__main__":
    run_named(__doc__.splitlines()[0], PROGRAMS)
