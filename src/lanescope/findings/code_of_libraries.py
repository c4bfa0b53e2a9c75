"""What remedies look like with libraries of arrays: PyTorch, CuPy and JAX."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Language:
    """How programs are written, and what remedies look like there.

    Attributes
    ----------
    name
        As people read it.
    text
        Lines as they are, behind ``==`` and what is done, and behind ``== then`` as they are after
        it; of each remedy in turn.
    kernels
        What only its kernels are called; None: they are called as their programs name them.
    without
        By what is done why there are no lines, where it has no way to do it.
    """

    name: str
    text: str
    kernels: re.Pattern[str] | None = None
    without: dict[str, str] = field(default_factory=dict)

    @property
    def snippets(self) -> dict[str, tuple[str, str]]:
        """By what is done the lines as they are, and as they are after it."""
        parts = re.split(r"^== (.+)\n", self.text, flags=re.M)[1:]
        lines = [part.strip("\n") for part in parts[1::2]]
        return dict(zip(parts[::4], zip(lines[::2], lines[1::2], strict=True), strict=True))


PYTORCH = Language(
    "PyTorch",
    """
== pin
loader = DataLoader(data, batch_size=size)
inputs = batch.cuda()
results = outputs.cpu()
== then
loader = DataLoader(data, batch_size=size, pin_memory=True)
inputs = batch.to("cuda", non_blocking=True)  # batch is pinned
results = torch.empty(shape, dtype=outputs.dtype, pin_memory=True)  # once
results.copy_(outputs, non_blocking=True)
torch.cuda.current_stream().synchronize()  # before the host reads results

== async
inputs = host.to("cuda")
results.copy_(outputs)
== then
inputs = host.to("cuda", non_blocking=True)  # host and results are pinned
results.copy_(outputs, non_blocking=True)
torch.cuda.current_stream().synchronize()  # before results are read

== batch
found = [array.cuda() for array in arrays]
== then
packed = torch.empty(len(arrays), *shape, pin_memory=True)  # once
copied = torch.cuda.Event()  # once
copied.synchronize()  # the last copy from packed has ended
torch.stack(arrays, out=packed)
found = packed.to("cuda", non_blocking=True).unbind()  # a view of each
copied.record()

== streams
results.copy_(work(host.to("cuda")))
== then
pieces = zip(host.chunk(parts), results.chunk(parts))  # both are pinned
for part, (piece, result) in enumerate(pieces):
    with torch.cuda.stream(streams[part % len(streams)]):
        outputs = work(piece.to("cuda", non_blocking=True))
        result.copy_(outputs, non_blocking=True)
torch.cuda.synchronize()  # once a round

== prefetch
for batch in loader:
    total += step(batch.to("cuda")).item()
== then
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
    loss = step(inputs)  # which waits for nothing
    batch = next(batches, None)  # made while the GPU works
    following = None if batch is None else fetch(batch)
    total += loss.item()  # here, and no earlier, the host waits for it

== defer
total += loss.item()
== then
losses.append(loss.detach())
# after the loop, or every hundred rounds:
total += torch.stack(losses).sum().item()

== defer-results
host = torch.empty(shape, pin_memory=True)  # once
for batch in batches:
    host.copy_(work(batch))
    step(host)
== then
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

== keep-results
host = outputs.cpu()
step(host.to("cuda"))
== then
step(outputs)  # as it is on the GPU

== keep
for batch in batches:
    step(batch, host.to("cuda"))
== then
table = host.to("cuda")  # once, and again where the host changes it
for batch in batches:
    step(batch, table)

== keep-parts
for batch in batches:
    step(batch, host.to("cuda"))
== then
table = host.to("cuda")  # once
for batch in batches:
    table[begin:end].copy_(host[begin:end])  # what changed
    step(batch, table)
""",
    kernels=re.compile(r"at6native|at::native|^triton_(poi|per|red|tem)_"),
    without={
        "mapped": "PyTorch's kernels take no host memory; this needs a kernel of CUDA C++",
        "hybrid": "PyTorch's kernels take no host memory; this needs a kernel of CUDA C++",
        "managed": "PyTorch has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
    },
)

CUPY = Language(
    "CuPy",
    """
== pin
device = cupy.asarray(values)
results = cupy.asnumpy(outputs)
== then
host = cupyx.empty_pinned(values.shape, values.dtype)  # once; read into it
device = cupy.empty(values.shape, values.dtype)  # once
results = cupyx.empty_pinned(outputs.shape, outputs.dtype)  # once
device.set(host)
outputs.get(out=results)

== async
device.set(host)
outputs.get(out=results)
== then
device.set(host, stream=stream)  # host and results are pinned
outputs.get(out=results, stream=stream, blocking=False)
stream.synchronize()  # once a round, before results are read

== batch
found = [cupy.asarray(array) for array in arrays]
== then
packed = cupyx.empty_pinned((len(arrays), size), dtype)  # once
device = cupy.empty((len(arrays), size), dtype)  # once
numpy.stack(arrays, out=packed)  # after the last copy from it has ended
device.set(packed)
found = list(device)  # a view of each

== streams
device.set(host)
work(device, outputs)
outputs.get(out=results)
== then
for part in range(parts):  # host and results are pinned
    at = slice(part * count, (part + 1) * count)
    with streams[part % len(streams)] as stream:
        device[at].set(host[at], stream=stream)
        work(device[at], outputs[at])
        outputs[at].get(out=results[at], stream=stream, blocking=False)
cupy.cuda.Device().synchronize()  # once a round

== prefetch
for batch in batches:
    device.set(batch)
    step(device)
== then
ahead = cupy.cuda.Stream(non_blocking=True)
ready, used = cupy.cuda.Event(), cupy.cuda.Event()
buffers[0].set(batches[0], stream=ahead)  # batches are pinned
ready.record(ahead)
stream = cupy.cuda.get_current_stream()
for i in range(len(batches)):
    stream.wait_event(ready)
    step(buffers[i % 2])  # which waits for nothing
    if i + 1 < len(batches):  # made while the GPU works
        ahead.wait_event(used)  # kernels of the round before
        buffers[(i + 1) % 2].set(batches[i + 1], stream=ahead)
        ready.record(ahead)
    used.record(stream)
    # here, and no earlier, the host may wait for what this round returns

== defer
total += float(value)
== then
results[i] = value  # results: a CuPy array, made once
# after the loop, or every hundred rounds:
total += float(results.sum())

== defer-results
for i in range(count):
    work(device, outputs)
    outputs.get(out=results)
    step(results)
== then
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

== mapped
device.set(host)
work(device, outputs)
== then
host = cupyx.empty_pinned(shape, dtype)  # once
memory = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host)
mapped = cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))
work(mapped, outputs)  # reads the host's memory, each byte once
cupy.cuda.Device().synchronize()  # before the host writes to it again

== hybrid
device.set(host)
work(device, outputs)
outputs.get(out=results)
== then
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

== keep-results
host = outputs.get()
step(cupy.asarray(host))
== then
step(outputs)  # as it is on the GPU

== keep
for batch in batches:
    step(batch, cupy.asarray(host))
== then
table = cupy.asarray(host)  # once, and again where the host changes it
for batch in batches:
    step(batch, table)

== keep-parts
for batch in batches:
    step(batch, cupy.asarray(host))
== then
table = cupy.asarray(host)  # once
for batch in batches:
    table[begin:end].set(host[begin:end])  # what changed
    step(batch, table)

== managed
work(data)  # its pages come by faults
== then
stream = cupy.cuda.get_current_stream()
pointer, size = data.data.ptr, data.nbytes
cupy.cuda.runtime.memPrefetchAsync(pointer, size, gpu, stream.ptr)
work(data)
""",
    kernels=re.compile(r"^cupy_"),
)

JAX = Language(
    "JAX",
    """
== pin
inputs = jax.device_put(values)  # values: a NumPy array
== then
gpu = jax.sharding.SingleDeviceSharding(jax.devices()[0])
pinned = gpu.with_memory_kind("pinned_host")
host = jax.device_put(values, pinned)  # once
inputs = jax.device_put(host, gpu)

== async
results = [numpy.asarray(step(inputs)) for inputs in batches]
== then
outputs = [step(inputs) for inputs in batches]
for output in outputs:
    output.copy_to_host_async()
results = [numpy.asarray(output) for output in outputs]  # waits once

== batch
found = [jax.device_put(array) for array in arrays]
== then
found = jax.device_put(numpy.stack(arrays))  # take found[i] under jax.jit

== prefetch
for batch in batches:
    state = step(state, batch)
    losses.append(float(state))  # waits for the round
== then
following = jax.device_put(next(batches))
for batch in batches:
    inputs, following = following, jax.device_put(batch)  # while step runs
    state = step(state, inputs)  # and nothing waits for it
    losses.append(state)
state = step(state, following)
losses.append(state)

== defer
total += float(loss)
== then
losses.append(loss)
# after the loop, or every hundred rounds:
total += float(numpy.sum(jax.device_get(losses)))

== defer-results
for inputs in batches:
    total += float(numpy.asarray(step(inputs)).sum())
== then
before = None
for inputs in batches:
    outputs = step(inputs)
    outputs.copy_to_host_async()
    if before is not None:  # results of the round before
        total += float(numpy.asarray(before).sum())
    before = outputs
total += float(numpy.asarray(before).sum())

== keep-results
host = numpy.asarray(outputs)
step(host)
== then
step(outputs)  # as it is on the GPU

== keep
for batch in batches:
    state = step(state, host)  # host: a NumPy array, copied in by each call
== then
table = jax.device_put(host)  # once, and again where the host changes it
for batch in batches:
    state = step(state, table)

== keep-parts
for batch in batches:
    state = step(state, host)  # host: a NumPy array, copied in by each call
== then
table = jax.device_put(host)  # once
for batch in batches:
    table = table.at[begin:end].set(host[begin:end])  # what changed
    state = step(state, table)
""",
    kernels=re.compile(r"^(loop|input)\w*_fusion|^wrapped_\w+$|^fusion(_\d+)?$"),
    without={
        "streams": "XLA chooses the streams; prefetch is what a program of JAX can do itself",
        "mapped": "kernels of XLA take no host memory; this needs a kernel of CUDA C++",
        "hybrid": "kernels of XLA take no host memory; this needs a kernel of CUDA C++",
        "managed": "JAX has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
    },
)
