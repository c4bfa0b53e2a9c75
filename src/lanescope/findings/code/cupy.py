"""What remedies look like in CuPy: lines as they are, and as they are after it."""

from __future__ import annotations

import re

NAME = "CuPy"
#: Parts of kernels' names that CuPy alone has.
KERNELS = re.compile(r"^cupy_")

#: By what is done.
SNIPPETS: dict[str, tuple[str, str]] = {
    "pin": (
        """
device = cupy.asarray(values)
results = cupy.asnumpy(outputs)
""",
        """
host = cupyx.empty_pinned(values.shape, values.dtype)  # once; read into it
device = cupy.empty(values.shape, values.dtype)  # once
results = cupyx.empty_pinned(outputs.shape, outputs.dtype)  # once
device.set(host)
outputs.get(out=results)
""",
    ),
    "async": (
        """
device.set(host)
outputs.get(out=results)
""",
        """
device.set(host, stream=stream)  # host and results are pinned
outputs.get(out=results, stream=stream, blocking=False)
stream.synchronize()  # once a round, before results are read
""",
    ),
    "batch": (
        """
found = [cupy.asarray(array) for array in arrays]
""",
        """
packed = cupyx.empty_pinned((len(arrays), size), dtype)  # once
device = cupy.empty((len(arrays), size), dtype)  # once
numpy.stack(arrays, out=packed)  # after the last copy from it has ended
device.set(packed)
found = list(device)  # a view of each
""",
    ),
    "streams": (
        """
device.set(host)
work(device, outputs)
outputs.get(out=results)
""",
        """
for part in range(parts):  # host and results are pinned
    at = slice(part * count, (part + 1) * count)
    with streams[part % len(streams)] as stream:
        device[at].set(host[at], stream=stream)
        work(device[at], outputs[at])
        outputs[at].get(out=results[at], stream=stream, blocking=False)
cupy.cuda.Device().synchronize()  # once a round
""",
    ),
    "prefetch": (
        """
for batch in batches:
    device.set(batch)
    step(device)
""",
        """
ahead = cupy.cuda.Stream(non_blocking=True)
ready, used = cupy.cuda.Event(), cupy.cuda.Event()
buffers[0].set(batches[0], stream=ahead)  # batches are pinned
ready.record(ahead)
stream = cupy.cuda.get_current_stream()
for i in range(len(batches)):
    stream.wait_event(ready)
    if i + 1 < len(batches):
        ahead.wait_event(used)  # kernels of the round before
        buffers[(i + 1) % 2].set(batches[i + 1], stream=ahead)
        ready.record(ahead)
    step(buffers[i % 2])
    used.record(stream)
""",
    ),
    "defer": (
        """
total += float(value)
""",
        """
results[i] = value  # results: a CuPy array, made once
# after the loop, or every hundred rounds:
total += float(results.sum())
""",
    ),
    "defer-results": (
        """
for i in range(count):
    work(device, outputs)
    outputs.get(out=results)
    step(results)
""",
        """
hosts = [cupyx.empty_pinned(shape, dtype) for _ in range(2)]  # once
copied = [cupy.cuda.Event() for _ in hosts]  # once
for i in range(count):
    work(device, outputs)
    outputs.get(out=hosts[i % 2], blocking=False)
    copied[i % 2].record()
    if i > 0:  # results of the round before, while the GPU goes on
        copied[(i - 1) % 2].synchronize()
        step(hosts[(i - 1) % 2])
copied[i % 2].synchronize()
step(hosts[i % 2])
""",
    ),
    "mapped": (
        """
device.set(host)
work(device, outputs)
""",
        """
host = cupyx.empty_pinned(shape, dtype)  # once
memory = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host)
mapped = cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))
work(mapped, outputs)  # reads the host's memory, each byte once
""",
    ),
    "hybrid": (
        """
device.set(host)
work(device, outputs)
outputs.get(out=results)
""",
        """
results = cupyx.empty_pinned(shape, dtype)  # once
memory = cupy.cuda.UnownedMemory(
    results.ctypes.data, results.nbytes, results
)
mapped = cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))
for part in range(parts):  # host is pinned
    at = slice(part * count, (part + 1) * count)
    with streams[part % len(streams)] as stream:
        device[at].set(host[at], stream=stream)
        work(device[at], mapped[at])  # writes the host's memory
cupy.cuda.Device().synchronize()  # once a round
""",
    ),
    "keep-results": (
        """
host = outputs.get()
step(cupy.asarray(host))
""",
        """
step(outputs)  # as it is on the GPU
""",
    ),
    "keep": (
        """
for batch in batches:
    step(batch, cupy.asarray(host))
""",
        """
table = cupy.asarray(host)  # once, and again where the host changes it
for batch in batches:
    step(batch, table)
""",
    ),
    "managed": (
        """
work(data)  # its pages come by faults
""",
        """
stream = cupy.cuda.get_current_stream()
pointer, size = data.data.ptr, data.nbytes
cupy.cuda.runtime.memPrefetchAsync(pointer, size, gpu, stream.ptr)
work(data)
""",
    ),
}
