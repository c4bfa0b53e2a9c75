"""What a remedy looks like in the program's own language: one table, before and after."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lanescope.document.finding import Snippet
from lanescope.trace.timeline import Timeline

CUDA, PYTORCH, CUPY, JAX, NUMBA = "CUDA C++", "PyTorch", "CuPy", "JAX", "Numba"
LANGUAGES = (CUDA, PYTORCH, CUPY, JAX, NUMBA)
SHELL = "shell"  # what is done around a program, in whatever language it is

#: By what is done and the language: lines as they are now, and as they are then.
SNIPPETS: dict[tuple[str, str], tuple[str, str]] = {
    ("pin", CUDA): (
        """
float* host = static_cast<float*>(malloc(bytes));
""",
        """
float* host;  // once, and used again each round
cudaMallocHost(&host, bytes);  // cudaFreeHost(host) at the end
""",
    ),
    ("pin", PYTORCH): (
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
    ("pin", CUPY): (
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
    ("pin", JAX): (
        """
inputs = jax.device_put(values)  # values: a NumPy array
""",
        """
gpu = jax.sharding.SingleDeviceSharding(jax.devices()[0])
pinned = gpu.with_memory_kind("pinned_host")
host = jax.device_put(values, pinned)  # once
inputs = jax.device_put(host, gpu)
""",
    ),
    ("pin", NUMBA): (
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
    ("async", CUDA): (
        """
cudaMemcpy(in, host_in, bytes, cudaMemcpyHostToDevice);
work<<<grid, block>>>(in, out);
cudaMemcpy(host_out, out, bytes, cudaMemcpyDeviceToHost);
""",
        """
cudaMemcpyAsync(in, host_in, bytes, cudaMemcpyDefault, stream);  // pinned
work<<<grid, block, 0, stream>>>(in, out);
cudaMemcpyAsync(host_out, out, bytes, cudaMemcpyDeviceToHost, stream);
cudaStreamSynchronize(stream);  // once a round, before host_out is read
""",
    ),
    ("async", PYTORCH): (
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
    ("async", CUPY): (
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
    ("async", JAX): (
        """
results = [numpy.asarray(step(inputs)) for inputs in batches]
""",
        """
outputs = [step(inputs) for inputs in batches]
for output in outputs:
    output.copy_to_host_async()
results = [numpy.asarray(output) for output in outputs]  # waits once
""",
    ),
    ("async", NUMBA): (
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
    ("batch", CUDA): (
        """
for (auto& a : arrays)
  cudaMemcpy(a.device, a.host, a.bytes, cudaMemcpyHostToDevice);
""",
        """
cudaEventSynchronize(copied);  // the last copy from packed has ended
size_t at = 0;
for (auto& a : arrays) {
  memcpy(packed + at, a.host, a.bytes);  // packed: cudaMallocHost, once
  a.device = device + at;
  at += (a.bytes + 255) / 256 * 256;  // so that each stays aligned
}
cudaMemcpyAsync(device, packed, at, cudaMemcpyHostToDevice, stream);
cudaEventRecord(copied, stream);
""",
    ),
    ("batch", PYTORCH): (
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
    ("batch", CUPY): (
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
    ("batch", JAX): (
        """
found = [jax.device_put(array) for array in arrays]
""",
        """
found = jax.device_put(numpy.stack(arrays))  # take found[i] under jax.jit
""",
    ),
    ("batch", NUMBA): (
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
    ("streams", CUDA): (
        """
cudaMemcpy(in, host_in, bytes, cudaMemcpyHostToDevice);
work<<<grid, block>>>(in, out, parts * count);
cudaMemcpy(host_out, out, bytes, cudaMemcpyDeviceToHost);
""",
        """
for (int part = 0; part < parts; ++part) {  // host memory is pinned
  const cudaStream_t s = streams[part % streams.size()];
  const size_t at = part * count, piece = count * sizeof *in;
  cudaMemcpyAsync(in + at, host_in + at, piece, cudaMemcpyDefault, s);
  work<<<grid, block, 0, s>>>(in + at, out + at, count);
  cudaMemcpyAsync(host_out + at, out + at, piece, cudaMemcpyDefault, s);
}
cudaDeviceSynchronize();  // once a round
""",
    ),
    ("streams", PYTORCH): (
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
    ("streams", CUPY): (
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
    ("streams", NUMBA): (
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
    ("prefetch", CUDA): (
        """
cudaMemcpyAsync(in, batch(i), bytes, cudaMemcpyHostToDevice, stream);
work<<<grid, block, 0, stream>>>(in, out);
""",
        """
// before the loop: batch(0) into buffers[0] on ahead, and ready[0] recorded
const int now = i % 2, next = 1 - now;
cudaStreamWaitEvent(ahead, used[next], 0);  // kernels of the round before
float* to = buffers[next];  // batch(i + 1) is pinned
cudaMemcpyAsync(to, batch(i + 1), bytes, cudaMemcpyDefault, ahead);
cudaEventRecord(ready[next], ahead);
cudaStreamWaitEvent(stream, ready[now], 0);
work<<<grid, block, 0, stream>>>(buffers[now], out);
cudaEventRecord(used[now], stream);
""",
    ),
    ("prefetch", PYTORCH): (
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
    ("prefetch", CUPY): (
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
    ("prefetch", JAX): (
        """
for batch in batches:
    state = step(state, batch)
    losses.append(float(state))  # waits for the round
""",
        """
following = jax.device_put(next(batches))
for batch in batches:
    inputs, following = following, jax.device_put(batch)  # while step runs
    state = step(state, inputs)  # and nothing waits for it
    losses.append(state)
state = step(state, following)
""",
    ),
    ("prefetch", NUMBA): (
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
    ("defer", CUDA): (
        """
work<<<grid, block, 0, stream>>>(in, result);
cudaMemcpyAsync(host, result, sizeof *host, cudaMemcpyDefault, stream);
cudaStreamSynchronize(stream);
sum += *host;
""",
        """
work<<<grid, block, 0, stream>>>(in, results + i);  // no copy in the loop
// after the loop, or every hundred rounds:
cudaMemcpyAsync(host, results, n * sizeof *host, cudaMemcpyDefault, stream);
cudaStreamSynchronize(stream);
for (int k = 0; k < n; ++k) sum += host[k];
""",
    ),
    ("defer", PYTORCH): (
        """
total += loss.item()
""",
        """
losses.append(loss.detach())
# after the loop, or every hundred rounds:
total += torch.stack(losses).sum().item()
""",
    ),
    ("defer", CUPY): (
        """
total += float(value)
""",
        """
results[i] = value  # results: a CuPy array, made once
# after the loop, or every hundred rounds:
total += float(results.sum())
""",
    ),
    ("defer", JAX): (
        """
total += float(loss)
""",
        """
losses.append(loss)
# after the loop, or every hundred rounds:
total += float(numpy.sum(jax.device_get(losses)))
""",
    ),
    ("defer", NUMBA): (
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
    ("mapped", CUDA): (
        """
cudaMemcpy(in, host_in, bytes, cudaMemcpyHostToDevice);
work<<<grid, block>>>(in, out);
cudaMemcpy(host_out, out, bytes, cudaMemcpyDeviceToHost);
""",
        """
cudaHostAlloc(&host_in, bytes, cudaHostAllocMapped);  // once
cudaHostAlloc(&host_out, bytes, cudaHostAllocMapped);
cudaHostGetDevicePointer(&in, host_in, 0);  // the same memory, for kernels
cudaHostGetDevicePointer(&out, host_out, 0);
work<<<grid, block, 0, stream>>>(in, out);  // each byte once, in order
cudaStreamSynchronize(stream);
""",
    ),
    ("mapped", CUPY): (
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
    ("mapped", NUMBA): (
        """
device.copy_to_device(host)
work[blocks, threads](device, outputs)
""",
        """
host = cuda.mapped_array(shape, dtype)  # once
work[blocks, threads](host, outputs)  # reads host memory, each byte once
""",
    ),
    ("hybrid", CUDA): (
        """
cudaMemcpy(in, host_in, bytes, cudaMemcpyHostToDevice);
work<<<grid, block>>>(in, out, parts * count);
cudaMemcpy(host_out, out, bytes, cudaMemcpyDeviceToHost);
""",
        """
cudaHostAlloc(&host_out, bytes, cudaHostAllocMapped);  // once
cudaHostGetDevicePointer(&out, host_out, 0);
for (int part = 0; part < parts; ++part) {  // host_in is pinned
  const cudaStream_t s = streams[part % streams.size()];
  const size_t at = part * count, piece = count * sizeof *in;
  cudaMemcpyAsync(in + at, host_in + at, piece, cudaMemcpyDefault, s);
  work<<<grid, block, 0, s>>>(in + at, out + at, count);  // on the host
}
cudaDeviceSynchronize();  // once a round
""",
    ),
    ("hybrid", CUPY): (
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
    ("hybrid", NUMBA): (
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
    ("place", SHELL): (
        """
./app
""",
        """
numactl --cpunodebind=NODE --membind=NODE ./app  # the node of its GPU
""",
    ),
    ("keep", CUDA): (
        """
cudaMemcpyAsync(table, host, bytes, cudaMemcpyHostToDevice, stream);
work<<<grid, block, 0, stream>>>(in, table);
""",
        """
if (changed) {  // set it where the host writes to the table
  cudaMemcpyAsync(table, host, bytes, cudaMemcpyHostToDevice, stream);
  changed = false;
}
work<<<grid, block, 0, stream>>>(in, table);
""",
    ),
    ("keep", PYTORCH): (
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
    ("keep", CUPY): (
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
    ("keep", JAX): (
        """
for batch in batches:
    state = step(state, host)  # host: a NumPy array, copied in by each call
""",
        """
table = jax.device_put(host)  # once, and again where the host changes it
for batch in batches:
    state = step(state, table)
""",
    ),
    ("keep", NUMBA): (
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
    ("managed", CUDA): (
        """
work<<<grid, block, 0, stream>>>(data);  // its pages come by faults
""",
        """
const cudaMemLocation to_gpu{cudaMemLocationTypeDevice, gpu};
cudaMemPrefetchAsync(data, bytes, to_gpu, 0, stream);
// until CUDA 12: cudaMemPrefetchAsync(data, bytes, gpu, stream);
work<<<grid, block, 0, stream>>>(data);
""",
    ),
    ("managed", CUPY): (
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

#: Why there are no lines, where a language has no way to do it.
WITHOUT = {
    ("streams", JAX): "XLA chooses the streams; prefetch is what a program of JAX can do itself",
    ("mapped", PYTORCH): "PyTorch's kernels take no host memory; this needs a kernel of CUDA C++",
    ("mapped", JAX): "kernels of XLA take no host memory; this needs a kernel of CUDA C++",
    ("hybrid", PYTORCH): "PyTorch's kernels take no host memory; this needs a kernel of CUDA C++",
    ("hybrid", JAX): "kernels of XLA take no host memory; this needs a kernel of CUDA C++",
    ("managed", PYTORCH): "PyTorch has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
    ("managed", JAX): "JAX has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
    ("managed", NUMBA): "Numba has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
}


#: Lines that have those of other things to do in them.
_HOLDS = {
    "batch": {"pin"},
    "streams": {"async"},
    "mapped": {"pin"},
    "hybrid": {"pin", "async"},
}


def snippets(whats: Iterable[str], language: str) -> tuple[Snippet, ...]:
    """Return the lines for each thing to do, in that order; each has lines or says why not.

    What the lines of another one hold is left out.
    """
    every = list(whats)
    held = set().union(*(_HOLDS.get(what, ()) for what in every if (what, language) in SNIPPETS))
    return tuple(_snippet(what, language) for what in every if what not in held)


def _snippet(what: str, language: str) -> Snippet:
    for one in (language, SHELL):
        if (what, one) in SNIPPETS:
            before, after = (lines.strip("\n") for lines in SNIPPETS[what, one])
            return Snippet(what, one, before, after)
    return Snippet(what, language, why_none=WITHOUT[what, language])


#: Parts of kernels' names that a library alone has.
_KERNELS = (
    (PYTORCH, re.compile(r"at6native|at::native|^triton_(poi|per|red|tem)_")),
    (CUPY, re.compile(r"^cupy_")),
    (NUMBA, re.compile(r"cudapy|numba")),
    (JAX, re.compile(r"^(loop|input)\w*_fusion|^wrapped_\w+$|^fusion(_\d+)?$")),
)


def language_of(kernels: Iterable[str], command: str = "") -> str:
    """Return in what a program was written: by its kernels' names, else by its command line.

    Kernels that no library is known by are a program's own, of CUDA C++; of a program of Python
    whose kernels were not traced PyTorch is the likeliest.
    """
    names = list(kernels)
    for language, known in _KERNELS:
        if any(known.search(name) for name in names):
            return language
    program = command.split()[0].rsplit("/", 1)[-1] if command.split() else ""
    return PYTORCH if not names and program.startswith("python") else CUDA


#: Calls of CUDA, which a watch names, too.
_CALL = re.compile(r"^cu(da)?[A-Z]\w*$")


def kernels_of(timeline: Timeline) -> list[str]:
    """Return the names of the kernels of a watch."""
    return [name for name in timeline.operations.names if name and not _CALL.match(name)]


def languages(timeline: Timeline) -> dict[int, str]:
    """Return in what each process of a watch was written; all are known by the same kernels."""
    kernels = kernels_of(timeline)
    return {one.pid: language_of(kernels, one.command) for one in timeline.processes}
