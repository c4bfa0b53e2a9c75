"""Lines of code that stand with findings and advice, in the language of the program.

Those of CUDA C++ and Numba stand here, where programs write kernels themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lanescope.document.contents import Snippet
from lanescope.findings import code_of_libraries as libraries
from lanescope.findings.code_of_libraries import Language
from lanescope.trace.timeline import Timeline

_CUDA = Language(
    "CUDA C++",
    """
== pin
float* host = static_cast<float*>(malloc(bytes));
== then
float* host;  // once, and used again each round
cudaMallocHost(&host, bytes);  // cudaFreeHost(host) at the end

== async
cudaMemcpy(in, host_in, bytes, cudaMemcpyHostToDevice);
work<<<grid, block>>>(in, out);
cudaMemcpy(host_out, out, bytes, cudaMemcpyDeviceToHost);
== then
cudaMemcpyAsync(in, host_in, bytes, cudaMemcpyDefault, stream);  // pinned
work<<<grid, block, 0, stream>>>(in, out);
cudaMemcpyAsync(host_out, out, bytes, cudaMemcpyDeviceToHost, stream);
cudaStreamSynchronize(stream);  // once a round, before host_out is read

== batch
for (auto& a : arrays)
  cudaMemcpy(a.device, a.host, a.bytes, cudaMemcpyHostToDevice);
== then
cudaEventSynchronize(copied);  // the last copy from packed has ended
size_t at = 0;
for (auto& a : arrays) {
  memcpy(packed + at, a.host, a.bytes);  // packed: cudaMallocHost, once
  a.device = device + at;
  at += (a.bytes + 255) / 256 * 256;  // so that each stays aligned
}
cudaMemcpyAsync(device, packed, at, cudaMemcpyHostToDevice, stream);
cudaEventRecord(copied, stream);

== streams
cudaMemcpy(in, host_in, bytes, cudaMemcpyHostToDevice);
work<<<grid, block>>>(in, out, parts * count);
cudaMemcpy(host_out, out, bytes, cudaMemcpyDeviceToHost);
== then
for (int part = 0; part < parts; ++part) {  // host memory is pinned
  const cudaStream_t s = streams[part % streams.size()];
  const size_t at = part * count, piece = count * sizeof *in;
  cudaMemcpyAsync(in + at, host_in + at, piece, cudaMemcpyDefault, s);
  work<<<grid, block, 0, s>>>(in + at, out + at, count);
  cudaMemcpyAsync(host_out + at, out + at, piece, cudaMemcpyDefault, s);
}
cudaDeviceSynchronize();  // once a round

== prefetch
cudaMemcpyAsync(in, batch(i), bytes, cudaMemcpyHostToDevice, stream);
work<<<grid, block, 0, stream>>>(in, out);
== then
// before the loop: batch(0) into buffers[0] on ahead, and ready[0] recorded
const int now = i % 2, next = 1 - now;
cudaStreamWaitEvent(stream, ready[now], 0);
work<<<grid, block, 0, stream>>>(buffers[now], out);
cudaEventRecord(used[now], stream);
if (i + 1 < n) {
  cudaStreamWaitEvent(ahead, used[next], 0);  // kernels of the round before
  float* to = buffers[next];  // batch(i + 1): pinned, made while work runs
  cudaMemcpyAsync(to, batch(i + 1), bytes, cudaMemcpyDefault, ahead);
  cudaEventRecord(ready[next], ahead);
}
// here, and no earlier, the host may wait for what this round returns

== defer
work<<<grid, block, 0, stream>>>(in, result);
cudaMemcpyAsync(host, result, sizeof *host, cudaMemcpyDefault, stream);
cudaStreamSynchronize(stream);
sum += *host;
== then
work<<<grid, block, 0, stream>>>(in, results + i);  // no copy in the loop
// after the loop, or every hundred rounds:
cudaMemcpyAsync(host, results, n * sizeof *host, cudaMemcpyDefault, stream);
cudaStreamSynchronize(stream);
for (int k = 0; k < n; ++k) sum += host[k];

== defer-results
work<<<grid, block, 0, stream>>>(in, out);
cudaMemcpyAsync(host_out, out, bytes, cudaMemcpyDefault, stream);
cudaStreamSynchronize(stream);
sum += *host_out;
== then
work<<<grid, block, 0, stream>>>(in, out);
cudaMemcpyAsync(buffers[i % 2], out, bytes, cudaMemcpyDefault, stream);
cudaEventRecord(ready[i % 2], stream);
if (i > 0) {  // results of the round before; behind the loop the last ones
  cudaEventSynchronize(ready[(i - 1) % 2]);
  sum += *buffers[(i - 1) % 2];
}

== mapped
cudaMemcpy(in, host_in, bytes, cudaMemcpyHostToDevice);
work<<<grid, block>>>(in, out);
cudaMemcpy(host_out, out, bytes, cudaMemcpyDeviceToHost);
== then
cudaHostAlloc(&host_in, bytes, cudaHostAllocMapped);  // once
cudaHostAlloc(&host_out, bytes, cudaHostAllocMapped);
cudaHostGetDevicePointer(&in, host_in, 0);  // the same memory, for kernels
cudaHostGetDevicePointer(&out, host_out, 0);
work<<<grid, block, 0, stream>>>(in, out);  // each byte once, in order
cudaStreamSynchronize(stream);

== hybrid
cudaMemcpy(in, host_in, bytes, cudaMemcpyHostToDevice);
work<<<grid, block>>>(in, out, parts * count);
cudaMemcpy(host_out, out, bytes, cudaMemcpyDeviceToHost);
== then
cudaHostAlloc(&host_out, bytes, cudaHostAllocMapped);  // once
cudaHostGetDevicePointer(&out, host_out, 0);
for (int part = 0; part < parts; ++part) {  // host_in is pinned
  const cudaStream_t s = streams[part % streams.size()];
  const size_t at = part * count, piece = count * sizeof *in;
  cudaMemcpyAsync(in + at, host_in + at, piece, cudaMemcpyDefault, s);
  work<<<grid, block, 0, s>>>(in + at, out + at, count);  // on the host
}
cudaDeviceSynchronize();  // once a round

== keep-results
cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost);
cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
work<<<grid, block, 0, stream>>>(in, result);
== then
work<<<grid, block, 0, stream>>>(out, result);  // as it is on the GPU

== keep
cudaMemcpyAsync(table, host, bytes, cudaMemcpyHostToDevice, stream);
work<<<grid, block, 0, stream>>>(in, table);
== then
if (changed) {  // set it where the host writes to the table
  cudaMemcpyAsync(table, host, bytes, cudaMemcpyHostToDevice, stream);
  changed = false;
}
work<<<grid, block, 0, stream>>>(in, table);

== keep-parts
cudaMemcpyAsync(table, host, bytes, cudaMemcpyHostToDevice, stream);
work<<<grid, block, 0, stream>>>(in, table);
== then
const size_t changed_bytes = (end - begin) * sizeof *host;  // since then
cudaMemcpyAsync(table + begin, host + begin, changed_bytes,
                cudaMemcpyHostToDevice, stream);
work<<<grid, block, 0, stream>>>(in, table);

== managed
work<<<grid, block, 0, stream>>>(data);  // its pages come by faults
== then
const cudaMemLocation to_gpu{cudaMemLocationTypeDevice, gpu};
cudaMemPrefetchAsync(data, bytes, to_gpu, 0, stream);
// until CUDA 12: cudaMemPrefetchAsync(data, bytes, gpu, stream);
work<<<grid, block, 0, stream>>>(data);
""",
)

_NUMBA = Language(
    "Numba",
    """
== pin
device = cuda.to_device(values)
results = outputs.copy_to_host()
== then
host = cuda.pinned_array(values.shape, values.dtype)  # once; read into it
device = cuda.device_array(values.shape, values.dtype)  # once
results = cuda.pinned_array(outputs.shape, outputs.dtype)  # once
device.copy_to_device(host)
outputs.copy_to_host(results)

== async
device.copy_to_device(host)
outputs.copy_to_host(results)
== then
device.copy_to_device(host, stream=stream)  # host and results are pinned
outputs.copy_to_host(results, stream=stream)
stream.synchronize()  # once a round, before results are read

== batch
found = [cuda.to_device(array) for array in arrays]
== then
packed = cuda.pinned_array((len(arrays), size), dtype)  # once
device = cuda.device_array((len(arrays), size), dtype)  # once
numpy.stack(arrays, out=packed)  # after the last copy from it has ended
device.copy_to_device(packed)
found = [device[i] for i in range(len(arrays))]  # a view of each

== streams
device.copy_to_device(host)
work[blocks, threads](device, outputs)
outputs.copy_to_host(results)
== then
for part in range(parts):  # host and results are pinned
    at = slice(part * count, (part + 1) * count)
    stream = streams[part % len(streams)]
    device[at].copy_to_device(host[at], stream=stream)
    work[blocks, threads, stream](device[at], outputs[at])
    outputs[at].copy_to_host(results[at], stream=stream)
cuda.synchronize()  # once a round

== prefetch
for batch in batches:
    device.copy_to_device(batch)
    work[blocks, threads](device, outputs)
== then
ahead, stream = cuda.stream(), cuda.stream()
ready, used = cuda.event(), cuda.event()
buffers[0].copy_to_device(batches[0], stream=ahead)  # batches are pinned
ready.record(ahead)
for i in range(len(batches)):
    ready.wait(stream)
    work[blocks, threads, stream](buffers[i % 2], outputs)
    if i + 1 < len(batches):  # made while the GPU works
        used.wait(ahead)  # kernels of the round before
        buffers[(i + 1) % 2].copy_to_device(batches[i + 1], stream=ahead)
        ready.record(ahead)
    used.record(stream)
    # here, and no earlier, the host may wait for what this round returns

== defer
work[blocks, threads](values, result)
total += result.copy_to_host()[0]
== then
work[blocks, threads](values, results[i : i + 1])  # no copy in the loop
# after the loop, or every hundred rounds:
total += results.copy_to_host().sum()

== defer-results
for i in range(count):
    work[blocks, threads](device, outputs)
    outputs.copy_to_host(results)
    step(results)
== then
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

== mapped
device.copy_to_device(host)
work[blocks, threads](device, outputs)
== then
host = cuda.mapped_array(shape, dtype)  # once
work[blocks, threads](host, outputs)  # reads host memory, each byte once
cuda.synchronize()  # before the host writes to it again

== hybrid
device.copy_to_device(host)
work[blocks, threads](device, outputs)
outputs.copy_to_host(results)
== then
results = cuda.mapped_array(shape, dtype)  # once
for part in range(parts):  # host is pinned
    at = slice(part * count, (part + 1) * count)
    stream = streams[part % len(streams)]
    device[at].copy_to_device(host[at], stream=stream)
    work[blocks, threads, stream](device[at], results[at])  # on the host
cuda.synchronize()  # once a round

== keep-results
host = outputs.copy_to_host()
step(cuda.to_device(host))
== then
step(outputs)  # as it is on the GPU

== keep
for batch in batches:
    work[blocks, threads](batch, host)  # a NumPy array: copied twice
== then
table = cuda.to_device(host)  # once, and again where the host changes it
for batch in batches:
    work[blocks, threads](batch, table)

== keep-parts
for batch in batches:
    work[blocks, threads](batch, host)  # a NumPy array: copied twice
== then
table = cuda.to_device(host)  # once
for batch in batches:
    table[begin:end].copy_to_device(host[begin:end])  # what changed
    work[blocks, threads](batch, table)
""",
    kernels=re.compile(r"cudapy|numba"),
    without={
        "managed": "Numba has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
    },
)

_ALL = (_CUDA, libraries.PYTORCH, libraries.CUPY, libraries.JAX, _NUMBA)
CUDA, PYTORCH, CUPY, JAX, NUMBA = LANGUAGES = tuple(one.name for one in _ALL)
SHELL = "shell"  # what is done around a program, in whatever language it is
_PLACE = (
    "./app",
    "numactl --cpunodebind=NODE --membind=NODE ./app  # the node of its GPU",
)
#: By what is done and the language: lines as they are now, and as they are then.
SNIPPETS = {(what, one.name): lines for one in _ALL for what, lines in one.snippets.items()} | {
    ("place", SHELL): _PLACE
}
#: Why there are no lines, where a language has no way to do it.
WITHOUT = {(what, one.name): why for one in _ALL for what, why in one.without.items()}
#: Lines that have those of other things to do in them.
_HOLDS = {
    "batch": {"pin"},
    "streams": {"async"},
    "mapped": {"pin"},
    "hybrid": {"pin", "async"},
}
#: In this order by what their kernels are called: JAX has names that others may have, too.
_BY_KERNELS = (libraries.PYTORCH, libraries.CUPY, _NUMBA, libraries.JAX)
#: Calls of CUDA, which a watch names, too.
_CALL = re.compile(r"^cu(da)?[A-Z]\w*$")
#: A name as in C, where that of C++ has its types, too, in brackets or behind ``_Z``.
_OF_C = re.compile(r"^(?!_Z)[A-Za-z_]\w*$")


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
            return Snippet(what, one, *SNIPPETS[what, one])
    return Snippet(what, language, why_none=WITHOUT[what, language])


def language_of(kernels: Iterable[str], command: str = "") -> str:
    """Return in what a program was written: by its kernels' names, else by its command line.

    Kernels that no library is known by are a program's own, of CUDA C++; those of a program of
    Python with names as in C are most often made by CuPy. Where none were traced PyTorch is the
    likeliest.
    """
    names = list(kernels)
    for language in _BY_KERNELS:
        if language.kernels and any(map(language.kernels.search, names)):
            return language.name
    program = command.split()[0].rsplit("/", 1)[-1] if command.split() else ""
    if not program.startswith("python"):
        return CUDA
    if names:
        return CUPY if any(map(_OF_C.match, names)) else CUDA
    return PYTORCH


def kernels_of(timeline: Timeline) -> list[str]:
    """Return the names of the kernels of a watch."""
    return [name for name in timeline.operations.names if name and not _CALL.match(name)]


def languages(timeline: Timeline) -> dict[int, str]:
    """Return in what each process of a watch was written; all are known by the same kernels."""
    kernels = kernels_of(timeline)
    return {one.pid: language_of(kernels, one.command) for one in timeline.processes}
