"""What a change looks like in the program's own language."""

from __future__ import annotations

from collections.abc import Iterable

from lanescope.findings.advice.advice import Step

PYTORCH, CUPY, CUDA = "PyTorch", "CuPy", "CUDA C++"

_LINES = {
    (Step.PIN, PYTORCH): (
        "host = torch.empty(shape, dtype=dtype, pin_memory=True)  # once, used again each round\n"
        "device.copy_(host, non_blocking=True)  # and host.copy_(device) for results"
    ),
    (Step.PIN, CUPY): (
        "host = cupyx.empty_pinned(shape, dtype)  # once; read the data into it\n"
        "device.set(host)  # and device.get(out=host) for results"
    ),
    (Step.PIN, CUDA): "cudaMallocHost(&host, bytes);  // once, in place of malloc",
    (Step.PREFETCH, PYTORCH): (
        "with torch.cuda.stream(ahead):\n"
        '    following = batch.to("cuda", non_blocking=True)  # before this round computes\n'
        "# at the begin of the next round:\n"
        "torch.cuda.current_stream().wait_stream(ahead)\n"
        "following.record_stream(torch.cuda.current_stream())"
    ),
    (Step.PREFETCH, CUPY): (
        "with ahead:\n"
        "    buffers[(i + 1) % 2].set(batches[i + 1])  # pinned; before this round computes\n"
        "    copied.record()\n"
        "cupy.cuda.get_current_stream().wait_event(copied)  # at the begin of the next round"
    ),
    (Step.PREFETCH, CUDA): (
        "cudaMemcpyAsync(in[(i + 1) % 2], next, bytes, cudaMemcpyHostToDevice, ahead);\n"
        "cudaEventRecord(copied, ahead);\n"
        "cudaStreamWaitEvent(stream, copied);  // before the kernels of the next round"
    ),
    (Step.BATCH, PYTORCH): (
        "torch.stack(arrays, out=packed)  # packed is pinned, made once\n"
        'device = packed.to("cuda", non_blocking=True)'
    ),
    (Step.BATCH, CUPY): (
        "numpy.concatenate(arrays, out=packed)  # packed is pinned, made once\ndevice.set(packed)"
    ),
    (Step.BATCH, CUDA): (
        "for (auto& a : arrays) { memcpy(packed + at, a.data, a.bytes); at += a.bytes; }\n"
        "cudaMemcpyAsync(device, packed, at, cudaMemcpyHostToDevice, stream);"
    ),
    (Step.DEFER, PYTORCH): (
        "losses.append(loss.detach())  # in place of loss.item()\n"
        "values = torch.stack(losses).tolist()  # once, at the end"
    ),
    (Step.DEFER, CUPY): (
        "results[i] = value  # a cupy array, in place of float(value)\n"
        "values = results.get()  # once, at the end"
    ),
    (Step.DEFER, CUDA): (
        "kernel<<<grid, block, 0, stream>>>(..., results + i);  // no copy in the loop\n"
        "cudaMemcpyAsync(host, results, n * sizeof *results, cudaMemcpyDeviceToHost, stream);"
    ),
}


def code_of(steps: Iterable[Step], language: str) -> str | None:
    """Return lines that show the steps; None where one of them has none."""
    found = [_LINES.get((step, language)) for step in steps]
    return None if None in found else "\n".join(line for line in found if line)


def language_of(names: Iterable[str]) -> str:
    """Return in what a program with kernels of these names was written."""
    every = list(names)
    if any("at6native" in name or "at::native" in name for name in every):
        return PYTORCH
    return CUPY if any(name.startswith("cupy_") for name in every) else CUDA
