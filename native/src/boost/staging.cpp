#include "boost/staging.hpp"

#include <sys/mman.h>

#include "boost/driver.hpp"

namespace lanescope::boost {

namespace {

constexpr int kReadsPageable = 88;  // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
/// The legacy default stream takes no batches: theirs go through a stream of our own, with events
/// before and after, which costs as much as a few copies.
constexpr std::size_t kLeastAround = 4;

/// @return new memory that the current context has pinned; null where there is none. A child by
/// fork does not have it: it would get its own copy of what is pinned.
char* pinned(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_DONTFORK);
  if (driver().cuMemHostRegister(memory, bytes, 0) == CUDA_SUCCESS)
    return static_cast<char*>(memory);
  munmap(memory, bytes);
  return nullptr;
}

bool make(CUevent& event) noexcept {
  return driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
}

CUresult one(Gathered& batch, std::size_t i, CUstream stream) noexcept {
  return driver().cuMemcpyHtoDAsync(batch.to()[i], reinterpret_cast<const void*>(batch.from()[i]),
                                    batch.bytes()[i], stream);
}

CUresult each(Gathered& batch, CUstream stream) noexcept {
  for (std::size_t i = 0; i < batch.count(); ++i)
    if (const CUresult result = one(batch, i, stream); result != CUDA_SUCCESS) return result;
  return CUDA_SUCCESS;
}

/// By the driver's call for batches; the stream is not the legacy default one.
CUresult as_batch(Gathered& batch, CUstream stream) noexcept {
  const Driver& cuda = driver();
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  std::size_t first = 0, failed = 0;
  if (cuda.batch_13 != nullptr)
    return cuda.batch_13(batch.to(), batch.from(), batch.bytes(), batch.count(), &attributes,
                         &first, 1, stream);
  return cuda.batch_12(batch.to(), batch.from(), batch.bytes(), batch.count(), &attributes, &first,
                       1, &failed, stream);
}

}  // namespace

bool has_batches() noexcept {
  return driver().batch_13 != nullptr || driver().batch_12 != nullptr;
}

bool Staging::open(const Context& context) noexcept {
  const Driver& cuda = driver();
  if (memory_ != nullptr) munmap(memory_, kBytes);  // its context is no more
  *this = Staging();
  int shared = 0;
  cuda.cuDeviceGetAttribute(&shared, static_cast<CUdevice_attribute>(kReadsPageable),
                            context.device);
  context_ = context;
  is_shared_ = shared != 0;
  memory_ = pinned(kBytes);
  is_broken_ = memory_ == nullptr || !make(start_) || !make(before_) || !make(after_) ||
               cuda.cuStreamCreate(&own_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
  for (CUevent& event : arrivals_) is_broken_ = is_broken_ || !make(event);
  return !is_broken_;
}

bool Staging::note_start(CUstream stream) noexcept {
  return driver().cuEventRecord(start_, stream) == CUDA_SUCCESS;
}

bool Staging::has_started() const noexcept {
  return driver().cuEventQuery(start_) == CUDA_SUCCESS;
}

char* Staging::next_chunk() noexcept {
  for (std::size_t i = 1; i <= kChunks; ++i) {
    const std::size_t next = (chunk_ + i) % kChunks;
    if (writers_[next] > 0) continue;
    if (driver().cuEventQuery(arrivals_[next]) != CUDA_SUCCESS) return nullptr;  // nor newer ones
    chunk_ = next;
    return memory_ + next * Gathered::kMostBytes;
  }
  return nullptr;
}

/// As a batch of the legacy default stream would be: behind what that waits for, and before what
/// waits for that.
CUresult Staging::around(Gathered& batch) noexcept {
  const Driver& cuda = driver();
  CUresult result = cuda.cuEventRecord(before_, CU_STREAM_LEGACY);
  if (result == CUDA_SUCCESS) result = cuda.cuStreamWaitEvent(own_, before_, 0);
  if (result == CUDA_SUCCESS) result = as_batch(batch, own_);
  if (result == CUDA_SUCCESS) result = cuda.cuEventRecord(after_, own_);
  if (result == CUDA_SUCCESS) result = cuda.cuStreamWaitEvent(CU_STREAM_LEGACY, after_, 0);
  if (result != CUDA_SUCCESS) cuda.cuStreamSynchronize(own_);  // they are made once more
  return result;
}

CUresult Staging::together(Gathered& batch, CUstream stream) noexcept {
  if (batch.count() == 1) return one(batch, 0, stream);
  if (stream != CU_STREAM_LEGACY) return as_batch(batch, stream);
  return batch.count() < kLeastAround ? each(batch, stream) : around(batch);
}

CUresult Staging::issue(Gathered& batch, CUstream stream) noexcept {
  CUresult result = together(batch, stream);
  if (result != CUDA_SUCCESS) {
    is_broken_ = true;  // not once more; to write the same bytes twice is as good as once
    result = each(batch, stream);
  }
  is_broken_ |= driver().cuEventRecord(arrivals_[chunk_], stream) != CUDA_SUCCESS;
  return result;
}

}  // namespace lanescope::boost
