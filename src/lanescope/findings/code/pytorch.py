"""What remedies look like in PyTorch: lines as they are, and as they are after it."""

from __future__ import annotations

import re

NAME = "PyTorch"
#: Parts of kernels' names that PyTorch alone has.
KERNELS = re.compile(r"at6native|at::native|^triton_(poi|per|red|tem)_")

#: By what is done.
SNIPPETS: dict[str, tuple[str, str]] = {
    "pin": (
        """
loader = DataLoader(data, batch_size=size)
inputs = batch.cuda()
results = outputs.cpu()
""",
        """
loader = DataLoader(data, batch_size=size, pin_memory=True)
inputs = batch.to("cuda", non_blocking=True)  # batch is pinned
results = torch.empty(shape, dtype=outputs.dtype, pin_memory=True)  # once
results.copy_(outputs, non_blocking=True)
torch.cuda.current_stream().synchronize()  # before the host reads results
""",
    ),
    "async": (
        """
inputs = host.to("cuda")
results.copy_(outputs)
""",
        """
inputs = host.to("cuda", non_blocking=True)  # host and results are pinned
results.copy_(outputs, non_blocking=True)
torch.cuda.current_stream().synchronize()  # before results are read
""",
    ),
    "batch": (
        """
found = [array.cuda() for array in arrays]
""",
        """
packed = torch.empty(len(arrays), *shape, pin_memory=True)  # once
copied = torch.cuda.Event()  # once
copied.synchronize()  # the last copy from packed has ended
torch.stack(arrays, out=packed)
found = packed.to("cuda", non_blocking=True).unbind()  # a view of each
copied.record()
""",
    ),
    "streams": (
        """
results.copy_(work(host.to("cuda")))
""",
        """
pieces = zip(host.chunk(parts), results.chunk(parts))  # both are pinned
for part, (piece, result) in enumerate(pieces):
    with torch.cuda.stream(streams[part % len(streams)]):
        outputs = work(piece.to("cuda", non_blocking=True))
        result.copy_(outputs, non_blocking=True)
torch.cuda.synchronize()  # once a round
""",
    ),
    "prefetch": (
        """
for batch in loader:
    step(batch.to("cuda"))
""",
        """
ahead = torch.cuda.Stream()

def fetch(batch):
    with torch.cuda.stream(ahead):
        return batch.to("cuda", non_blocking=True)  # batch is pinned

batches = iter(loader)
following = fetch(next(batches))
while following is not None:
    torch.cuda.current_stream().wait_stream(ahead)
    inputs = following
    inputs.record_stream(torch.cuda.current_stream())
    batch = next(batches, None)
    following = None if batch is None else fetch(batch)
    step(inputs)
""",
    ),
    "defer": (
        """
total += loss.item()
""",
        """
losses.append(loss.detach())
# after the loop, or every hundred rounds:
total += torch.stack(losses).sum().item()
""",
    ),
    "defer-results": (
        """
host = torch.empty(shape, pin_memory=True)  # once
for batch in batches:
    host.copy_(work(batch))
    step(host)
""",
        """
hosts = [torch.empty(shape, pin_memory=True) for _ in range(2)]  # once
copied = [torch.cuda.Event() for _ in hosts]  # once
for i, batch in enumerate(batches):
    hosts[i % 2].copy_(work(batch), non_blocking=True)
    copied[i % 2].record()
    if i > 0:  # results of the round before, while the GPU goes on
        copied[(i - 1) % 2].synchronize()
        step(hosts[(i - 1) % 2])
copied[i % 2].synchronize()
step(hosts[i % 2])
""",
    ),
    "keep-results": (
        """
host = outputs.cpu()
step(host.to("cuda"))
""",
        """
step(outputs)  # as it is on the GPU
""",
    ),
    "keep": (
        """
for batch in batches:
    step(batch, host.to("cuda"))
""",
        """
table = host.to("cuda")  # once, and again where the host changes it
for batch in batches:
    step(batch, table)
""",
    ),
}

#: Why there are no lines, where it has no way to do it.
WITHOUT = {
    "mapped": "PyTorch's kernels take no host memory; this needs a kernel of CUDA C++",
    "hybrid": "PyTorch's kernels take no host memory; this needs a kernel of CUDA C++",
    "managed": "PyTorch has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
}
