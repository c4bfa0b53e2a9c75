#include "host/block_copier.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "cuda/host_clock.hpp"
#include "host/cache_flush.hpp"
#include "host/interruption.hpp"
#include "host/parallel.hpp"
#include "pattern.hpp"

namespace lanescope {

namespace {

constexpr std::uint64_t kBlockSeed = 0xB10C;
// Of bytes that are not to be written.
constexpr int kUntouched = 0xA5;
constexpr double kClockShare = 0.01;
constexpr std::size_t kMostLoops = std::size_t{1} << 24;
constexpr int kTrials = 5;
constexpr double kWarmUpSeconds = 0.01;
constexpr std::size_t kCheckedAtOnce = std::size_t{4} << 20;

BlockCopySpec checked(BlockCopySpec spec) {
  if (spec.bytes < 1 || spec.span_bytes < spec.bytes)
    throw Error("BlockCopier", 0, "bad span", "a span must hold a block of one byte or more");
  if (spec.flushed && !can_flush_caches())
    throw Error("BlockCopier", 0, "no cache flush", "no instruction is known");
  return spec;
}

/// Blocks lie side by side; where one is to be in the caches and the next is not, they must
/// not share a line.
std::size_t step_of(const BlockCopySpec& spec) {
  if (!spec.flushed) return spec.bytes;
  return (spec.bytes + kApartBytes - 1) / kApartBytes * kApartBytes;
}

std::size_t blocks_of(const BlockCopySpec& spec, std::size_t step) {
  if (spec.pattern == BlockPattern::repeated) return 1;
  return (spec.span_bytes - spec.bytes) / step + 1;
}

/// What is in the store buffers and the write-combining ones has left the core afterwards.
void finish_stores() {
#if defined(__x86_64__)
  asm volatile("mfence" ::: "memory");  // sfence only orders stores and waits for none
#elif defined(__aarch64__)
  asm volatile("dsb ish" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

char* bytes_of(const HostArray& array) {
  return static_cast<char*>(array.data());
}

}  // namespace

BlockCopier::BlockCopier(std::shared_ptr<const Topology> topology, BufferPool& pool,
                         BlockCopySpec spec, int device)
    : topology_(std::move(topology)),
      spec_(checked(spec)),
      step_(step_of(spec)),
      blocks_(blocks_of(spec, step_)),
      walk_(walk_over(spec.pattern, blocks_, step_)),
      source_(*topology_, pool, spec.source, spec.span_bytes, device),
      destination_(*topology_, pool, spec.destination, spec.span_bytes, device),
      clock_cost_(0) {
  const ScopedBinding binding(*topology_, {spec_.cpu});
  clock_cost_ = host_clock_cost();
  fill();
  warm_up();
  choose_loops();
}

void BlockCopier::fill() {
  fill_pattern(source_.data(), spec_.span_bytes, kBlockSeed);
  std::memset(destination_.data(), kUntouched, spec_.span_bytes);
  source_.require_on_its_node();
  destination_.require_on_its_node();
}

/// Once through the span, or for some time: what repetitions would find in the caches.
void BlockCopier::warm_up() {
  constexpr std::size_t kAtOnce = 256;
  const auto begin = HostClock::now();
  for (std::size_t done = 0; done < blocks_ && seconds_since(begin) < kWarmUpSeconds;
       done += kAtOnce)
    copy_next(std::min(kAtOnce, blocks_));
}

void BlockCopier::choose_loops() {
  const std::size_t most = spec_.flushed ? blocks_ : kMostLoops;
  for (;; loops_ = std::min(2 * loops_, most)) {
    std::vector<double> seconds = run(kTrials);
    std::nth_element(seconds.begin(), seconds.begin() + kTrials / 2, seconds.end());
    if (loops_ == most || clock_seconds() <= kClockShare * seconds[kTrials / 2]) return;
  }
}

std::vector<double> BlockCopier::run(int samples) {
  const ScopedBinding binding(*topology_, {spec_.cpu});
  std::vector<double> seconds;
  for (int i = 0; i < samples; ++i) {
    throw_if_interrupted();
    seconds.push_back(sample());
  }
  return seconds;
}

double BlockCopier::sample() {
  if (spec_.flushed) flush_next();
  const auto begin = HostClock::now();
  copy_next(loops_);
  finish_stores();
  return seconds_since(begin) / static_cast<double>(loops_);
}

void BlockCopier::flush_next() {
  std::visit(
      [&](auto walk) {  // a copy: the walk itself stays where it is
        for (std::size_t i = 0; i < loops_; ++i) {
          const std::size_t offset = walk.next();
          flush_from_caches(bytes_of(source_) + offset, spec_.bytes);
          flush_from_caches(bytes_of(destination_) + offset, spec_.bytes);
        }
      },
      walk_);
  finish_flushes();
}

void BlockCopier::copy_next(std::size_t loops) {
  const char* from = bytes_of(source_);
  char* to = bytes_of(destination_);
  std::visit(
      [&](auto& kept) {
        auto walk = kept;  // in registers, which the barrier below leaves alone
        for (std::size_t i = 0; i < loops; ++i) {
          const std::size_t offset = walk.next();
          std::memcpy(to + offset, from + offset, spec_.bytes);
          // Whoever looks may see it now: neither this copy nor the next is left out.
          asm volatile("" ::: "memory");
        }
        kept = walk;
      },
      walk_);
  copied_ += loops;
}

std::size_t BlockCopier::count_mismatches() {
  source_.require_on_its_node();  // the kernel may have moved what could not be bound
  destination_.require_on_its_node();
  {
    const ScopedBinding binding(*topology_, {spec_.cpu});
    copy_next(blocks_ - std::min(blocks_, copied_));
  }
  const std::size_t least = std::max<std::size_t>(1, kCheckedAtOnce / step_);
  std::atomic<std::size_t> sum = 0;
  in_parallel(blocks_, least, [&](std::size_t first, std::size_t last) {
    std::size_t wrong = 0;
    for (std::size_t block = first; block < last; ++block) wrong += mismatches_in(block);
    sum += wrong;
  });
  return sum;
}

std::size_t BlockCopier::mismatches_in(std::size_t block) const {
  const char* found = bytes_of(destination_);
  const std::size_t begin = block * step_, end = begin + spec_.bytes;
  const std::size_t next = block + 1 == blocks_ ? spec_.span_bytes : begin + step_;
  std::size_t wrong = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (i % 8 == 0 && i + 8 <= end) {
      const std::uint64_t expected = pattern_word(kBlockSeed, i / 8);
      if (std::memcmp(found + i, &expected, 8) == 0) {
        i += 7;
        continue;
      }
    }
    wrong += static_cast<std::uint8_t>(found[i]) != pattern_byte(kBlockSeed, i);
  }
  for (std::size_t i = end; i < next; ++i)
    wrong += static_cast<std::uint8_t>(found[i]) != kUntouched;
  return wrong;
}

void BlockCopier::spoil(std::size_t byte) {
  bytes_of(destination_)[byte] ^= 1;
}

}  // namespace lanescope
