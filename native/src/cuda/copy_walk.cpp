// The part of `CopySet` that knows which bytes a repetition copies, by which call.
#include <cstddef>
#include <vector>

#include "block_gaps.hpp"
#include "cuda/copy_set.hpp"
#include "cuda/peer.hpp"
#include "host/cache_flush.hpp"
#include "host/parallel.hpp"

namespace lanescope {

namespace {

constexpr std::size_t kFlushBytes = std::size_t{4} << 20;  // that are worth a thread

}  // namespace

/// Queues the copy of a part of the source to the same part of the destination.
void CopySet::copy_bytes(const Job& job, ByteRange range) const {
  auto* to = static_cast<std::byte*>(job.destination->data()) + range.begin;
  const auto* from = static_cast<const std::byte*>(job.source->data()) + range.begin;
  const std::size_t bytes = range.end - range.begin;
  if (job.spec.route == Route::peer || job.spec.route == Route::staged)
    check(cudaMemcpyPeerAsync(to, job.spec.destination.index, from, job.spec.source.index, bytes,
                              stream_of(job)),
          "cudaMemcpyPeerAsync");
  else
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(job)), "cudaMemcpyAsync");
}

/// Copies what no repetition has touched, so that all of each destination can be compared.
/// What has been touched is left as it is: a copy to a wrong place stays to be found.
void CopySet::copy_the_rest() {
  std::vector<const Stream*> streams;
  try {
    for (Job& job : jobs_) {
      if (job.repetitions == 0 || job.whole) continue;
      const ScopedDevice scope(job.spec.device);
      streams.push_back(&jobs_[job.queue].stream);
      job.whole = true;
      if (job.spec.sm) {
        SmShape shape = *job.spec.sm;
        shape.chunk_repeats = 1;
        launch(job, shape, 1, 1);
        continue;
      }
      for (const ByteRange gap : untouched_bytes(job.spec.walk.pattern, job.repetitions,
                                                 job.spec.bytes, job.spec.walk.span_bytes))
        copy_bytes(job, gap);
    }
  } catch (...) {
    static_cast<void>(drain(streams, kHangTimeoutS));
    throw;
  }
  wait_for_all(streams, kHangTimeoutS);
}

/// Drops the host's part of copies that ask for it from the CPUs' caches. What is
/// write-combined never is in them.
void CopySet::flush_caches() const {
  for (const Job& job : jobs_) {
    if (!job.spec.walk.flushed) continue;
    for (const Buffer* buffer : {job.source.get(), job.destination.get()}) {
      const Memory memory = buffer->place().memory;
      if (memory == Memory::device || memory == Memory::write_combined) continue;
      in_parallel(job.spec.walk.span_bytes, kFlushBytes, [&](std::size_t first, std::size_t last) {
        flush_from_caches(static_cast<const std::byte*>(buffer->data()) + first, last - first);
        finish_flushes();
      });
    }
  }
}

/// Switches off peer access where a copy must not use it. Nothing else of the set may need it.
void CopySet::switch_off_peers(PeerAccessOff& off, const Job& job) {
  if (job.staged && job.spec.route == Route::staged)
    off.take(job.spec.source.index, job.spec.destination.index);
}

}  // namespace lanescope
