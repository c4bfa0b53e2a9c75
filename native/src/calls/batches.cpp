#include "calls/batches.hpp"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "calls/copy_apis.hpp"
#include "calls/python_stack.hpp"
#include "calls/recorder.hpp"
#include "inject/same_errno.hpp"
#include "intercept/in_place_of.hpp"

namespace lanescope::calls {

namespace {

using intercept::swapped;

constexpr int kFirstBatches = 12080, kSecondBatches = 13000;  // since then no `failIdx`

struct Batch {
  const CUdeviceptr* to;
  const CUdeviceptr* from;
  const std::size_t* sizes;
  std::size_t count;
  CUstream stream;
};

/// Add a record for each copy, which has its part of the time.
void record(const Batch& batch, std::uint64_t start, std::uint64_t end) noexcept {
  Ring* to = ring();
  if (to == nullptr || batch.count == 0) return;
  const inject::SameErrno guard;
  Copy copy;
  copy.call = kBatchCall;
  copy.stream = stream_number(batch.stream);
  copy.asynchronous = true;
  std::uint32_t stack = kNotWanted;
  const std::uint64_t each = (end - start) / batch.count;
  for (std::size_t i = 0; i < batch.count; ++i) {
    copy.bytes = batch.sizes[i];
    set_ends(copy, batch.from[i], batch.to[i]);
    copy.stack = kNotWanted;
    if (copy.bytes >= to->stacks_from()) {
      if (stack == kNotWanted) stack = python_stack(*to);  // all have the same
      copy.stack = stack;
    }
    to->add(copy, start + i * each, start + (i + 1) * each);
  }
}

/// `kVariant` 1 has a default stream for each thread.
template <int kVariant>
struct Batches {
  using First = CUresult (*)(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t,
                             CUmemcpyAttributes*, std::size_t*, std::size_t, std::size_t*,
                             CUstream);
  using Second = CUresult (*)(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t,
                              CUmemcpyAttributes*, std::size_t*, std::size_t, CUstream);
  static inline std::atomic<First> first{nullptr};
  static inline std::atomic<Second> second{nullptr};

  static CUresult with_failed(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes,
                              std::size_t count, CUmemcpyAttributes* attributes,
                              std::size_t* places, std::size_t kinds, std::size_t* failed,
                              CUstream stream) {
    const std::uint64_t start = now();
    const CUresult result =
        first.load()(to, from, sizes, count, attributes, places, kinds, failed, stream);
    const std::uint64_t end = now();
    if (result == CUDA_SUCCESS) record({to, from, sizes, count, stream}, start, end);
    return result;
  }

  static CUresult call(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,
                       CUmemcpyAttributes* attributes, std::size_t* places, std::size_t kinds,
                       CUstream stream) {
    const std::uint64_t start = now();
    const CUresult result =
        second.load()(to, from, sizes, count, attributes, places, kinds, stream);
    const std::uint64_t end = now();
    if (result == CUDA_SUCCESS) record({to, from, sizes, count, stream}, start, end);
    return result;
  }

  static void* in_place_of(int cuda_version, void* function) noexcept {
    return cuda_version < kSecondBatches ? swapped(first, &with_failed, function)
                                         : swapped(second, &call, function);
  }
};

}  // namespace

void* wrapped_batch(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept {
  if (name != "cuMemcpyBatchAsync" || cuda_version < kFirstBatches) return function;
  return per_thread ? Batches<1>::in_place_of(cuda_version, function)
                    : Batches<0>::in_place_of(cuda_version, function);
}

}  // namespace lanescope::calls
