"""What remedies look like in CUDA C++: lines as they are, and as they are after it."""

from __future__ import annotations

NAME = "CUDA C++"

#: By what is done.
SNIPPETS: dict[str, tuple[str, str]] = {
    "pin": (
        """
float* host = static_cast<float*>(malloc(bytes));
""",
        """
float* host;  // once, and used again each round
cudaMallocHost(&host, bytes);  // cudaFreeHost(host) at the end
""",
    ),
    "async": (
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
    "batch": (
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
    "streams": (
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
    "prefetch": (
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
    "defer": (
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
    "defer-results": (
        """
work<<<grid, block, 0, stream>>>(in, out);
cudaMemcpyAsync(host_out, out, bytes, cudaMemcpyDefault, stream);
cudaStreamSynchronize(stream);
sum += *host_out;
""",
        """
work<<<grid, block, 0, stream>>>(in, out);
cudaMemcpyAsync(buffers[i % 2], out, bytes, cudaMemcpyDefault, stream);
cudaEventRecord(ready[i % 2], stream);
if (i > 0) {  // results of the round before; behind the loop the last ones
  cudaEventSynchronize(ready[(i - 1) % 2]);
  sum += *buffers[(i - 1) % 2];
}
""",
    ),
    "mapped": (
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
    "hybrid": (
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
    "keep-results": (
        """
cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost);
cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
work<<<grid, block, 0, stream>>>(in, result);
""",
        """
work<<<grid, block, 0, stream>>>(out, result);  // as it is on the GPU
""",
    ),
    "keep": (
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
    "managed": (
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
}
