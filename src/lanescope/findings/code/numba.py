"""What remedies look like in Numba: lines as they are, and as they are after it."""

from __future__ import annotations

import re

NAME = "Numba"
#: Parts of kernels' names that Numba alone has.
KERNELS = re.compile(r"cudapy|numba")

#: By what is done.
SNIPPETS: dict[str, tuple[str, str]] = {
    "pin": (
        """
device = cuda.to_device(values)
results = outputs.copy_to_host()
""",
        """
host = cuda.pinned_array(values.shape, values.dtype)  # once; read into it
device = cuda.device_array(values.shape, values.dtype)  # once
results = cuda.pinned_array(outputs.shape, outputs.dtype)  # once
device.copy_to_device(host)
outputs.copy_to_host(results)
""",
    ),
    "async": (
        """
device.copy_to_device(host)
outputs.copy_to_host(results)
""",
        """
device.copy_to_device(host, stream=stream)  # host and results are pinned
outputs.copy_to_host(results, stream=stream)
stream.synchronize()  # once a round, before results are read
""",
    ),
    "batch": (
        """
found = [cuda.to_device(array) for array in arrays]
""",
        """
packed = cuda.pinned_array((len(arrays), size), dtype)  # once
device = cuda.device_array((len(arrays), size), dtype)  # once
numpy.stack(arrays, out=packed)  # after the last copy from it has ended
device.copy_to_device(packed)
found = [device[i] for i in range(len(arrays))]  # a view of each
""",
    ),
    "streams": (
        """
device.copy_to_device(host)
work[blocks, threads](device, outputs)
outputs.copy_to_host(results)
""",
        """
for part in range(parts):  # host and results are pinned
    at = slice(part * count, (part + 1) * count)
    stream = streams[part % len(streams)]
    device[at].copy_to_device(host[at], stream=stream)
    work[blocks, threads, stream](device[at], outputs[at])
    outputs[at].copy_to_host(results[at], stream=stream)
cuda.synchronize()  # once a round
""",
    ),
    "prefetch": (
        """
for batch in batches:
    device.copy_to_device(batch)
    work[blocks, threads](device, outputs)
""",
        """
ahead, stream = cuda.stream(), cuda.stream()
ready, used = cuda.event(), cuda.event()
buffers[0].copy_to_device(batches[0], stream=ahead)  # batches are pinned
ready.record(ahead)
for i in range(len(batches)):
    ready.wait(stream)
    if i + 1 < len(batches):
        used.wait(ahead)  # kernels of the round before
        buffers[(i + 1) % 2].copy_to_device(batches[i + 1], stream=ahead)
        ready.record(ahead)
    work[blocks, threads, stream](buffers[i % 2], outputs)
    used.record(stream)
""",
    ),
    "defer": (
        """
work[blocks, threads](values, result)
total += result.copy_to_host()[0]
""",
        """
work[blocks, threads](values, results[i : i + 1])  # no copy in the loop
# after the loop, or every hundred rounds:
total += results.copy_to_host().sum()
""",
    ),
    "defer-results": (
        """
for i in range(count):
    work[blocks, threads](device, outputs)
    outputs.copy_to_host(results)
    step(results)
""",
        """
hosts = [cuda.pinned_array(shape, dtype) for _ in range(2)]  # once
copied = [cuda.event() for _ in hosts]  # once
for i in range(count):
    work[blocks, threads, stream](device, outputs)
    outputs.copy_to_host(hosts[i % 2], stream=stream)
    copied[i % 2].record(stream)
    if i > 0:  # results of the round before, while the GPU goes on
        copied[(i - 1) % 2].synchronize()
        step(hosts[(i - 1) % 2])
copied[i % 2].synchronize()
step(hosts[i % 2])
""",
    ),
    "mapped": (
        """
device.copy_to_device(host)
work[blocks, threads](device, outputs)
""",
        """
host = cuda.mapped_array(shape, dtype)  # once
work[blocks, threads](host, outputs)  # reads host memory, each byte once
""",
    ),
    "hybrid": (
        """
device.copy_to_device(host)
work[blocks, threads](device, outputs)
outputs.copy_to_host(results)
""",
        """
results = cuda.mapped_array(shape, dtype)  # once
for part in range(parts):  # host is pinned
    at = slice(part * count, (part + 1) * count)
    stream = streams[part % len(streams)]
    device[at].copy_to_device(host[at], stream=stream)
    work[blocks, threads, stream](device[at], results[at])  # on the host
cuda.synchronize()  # once a round
""",
    ),
    "keep-results": (
        """
host = outputs.copy_to_host()
step(cuda.to_device(host))
""",
        """
step(outputs)  # as it is on the GPU
""",
    ),
    "keep": (
        """
for batch in batches:
    work[blocks, threads](batch, host)  # a NumPy array: copied twice
""",
        """
table = cuda.to_device(host)  # once, and again where the host changes it
for batch in batches:
    work[blocks, threads](batch, table)
""",
    ),
}

#: Why there are no lines, where it has no way to do it.
WITHOUT = {
    "managed": "Numba has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
}
