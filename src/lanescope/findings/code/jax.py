"""What remedies look like in JAX: lines as they are, and as they are after it."""

from __future__ import annotations

import re

NAME = "JAX"
#: Parts of kernels' names that JAX alone has.
KERNELS = re.compile(r"^(loop|input)\w*_fusion|^wrapped_\w+$|^fusion(_\d+)?$")

#: By what is done.
SNIPPETS: dict[str, tuple[str, str]] = {
    "pin": (
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
    "async": (
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
    "batch": (
        """
found = [jax.device_put(array) for array in arrays]
""",
        """
found = jax.device_put(numpy.stack(arrays))  # take found[i] under jax.jit
""",
    ),
    "prefetch": (
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
    "defer": (
        """
total += float(loss)
""",
        """
losses.append(loss)
# after the loop, or every hundred rounds:
total += float(numpy.sum(jax.device_get(losses)))
""",
    ),
    "defer-results": (
        """
for inputs in batches:
    total += float(numpy.asarray(step(inputs)).sum())
""",
        """
before = None
for inputs in batches:
    outputs = step(inputs)
    outputs.copy_to_host_async()
    if before is not None:  # results of the round before
        total += float(numpy.asarray(before).sum())
    before = outputs
total += float(numpy.asarray(before).sum())
""",
    ),
    "keep-results": (
        """
host = numpy.asarray(outputs)
step(host)
""",
        """
step(outputs)  # as it is on the GPU
""",
    ),
    "keep": (
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
}

#: Why there are no lines, where it has no way to do it.
WITHOUT = {
    "streams": "XLA chooses the streams; prefetch is what a program of JAX can do itself",
    "mapped": "kernels of XLA take no host memory; this needs a kernel of CUDA C++",
    "hybrid": "kernels of XLA take no host memory; this needs a kernel of CUDA C++",
    "managed": "JAX has no call for it; cudaMemPrefetchAsync of CUDA C++ has",
}
