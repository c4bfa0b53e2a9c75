#pragma once

// Stands in for one group of warps of a GPU: 128 threads that take turns on the host, each of which
// goes on until it has to wait for others. What kernels do between their loops over blocks can so
// be tried without a GPU, under the sanitizers. Include this before any of the kernels' headers.

#define LANESCOPE_EMULATED

#include <cuda_runtime_api.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#undef __device__
#define __device__
#undef __host__
#define __host__
#undef __forceinline__
#define __forceinline__ inline
#undef __noinline__
#define __noinline__

namespace emulated {

inline constexpr int kWarp = 32, kThreads = 128;

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(2);
}

/// Threads that wait for each other; each brings a value, and sees those of all.
struct Meeting {
  std::vector<std::uint64_t> brought[2];
  std::vector<int> kinds[2];
  int size = 0, here = 0, number = 0;
};

class Threads {
 public:
  static Threads& only() {
    static Threads threads;
    return threads;
  }

  void run(const std::function<void()>& work) {
    work_ = &work;
    for (int warp = 0; warp < kThreads / kWarp; ++warp) open(warps_[warp], kWarp);
    open(all_, kThreads);
    std::vector<std::unique_ptr<char[]>> stacks;
    done_.assign(kThreads, false);
    for (int i = 0; i < kThreads; ++i) {
      stacks.push_back(std::make_unique_for_overwrite<char[]>(kStack));
      getcontext(&threads_[i]);
      threads_[i].uc_stack.ss_sp = stacks.back().get();
      threads_[i].uc_stack.ss_size = kStack;
      threads_[i].uc_link = &main_;
      makecontext(&threads_[i], &Threads::begin, 0);
    }
    for (int left = kThreads; left > 0;) {
      left = 0;
      for (now_ = 0; now_ < kThreads; ++now_) {
        if (done_[now_]) continue;
        ++left;
        swapcontext(&main_, &threads_[now_]);
      }
    }
  }

  int now() const { return now_; }

  /// What all threads of the warp bring to this step; they have to be at the same kind of step.
  const std::vector<std::uint64_t>& meet_warp(std::uint64_t value, int kind) {
    return meet(warps_[now_ / kWarp], now_ % kWarp, value, kind);
  }
  const std::vector<std::uint64_t>& meet_all(std::uint64_t value, int kind) {
    return meet(all_, now_, value, kind);
  }

 private:
  static constexpr std::size_t kStack = 64 << 10;

  static void open(Meeting& meeting, int size) {
    meeting.size = size;
    meeting.here = 0;
    for (int i = 0; i < 2; ++i) {
      meeting.brought[i].assign(static_cast<std::size_t>(size), 0);
      meeting.kinds[i].assign(static_cast<std::size_t>(size), 0);
    }
  }

  static void begin() {
    (*only().work_)();
    only().done_[only().now_] = true;
  }

  const std::vector<std::uint64_t>& meet(Meeting& meeting, int place, std::uint64_t value,
                                         int kind) {
    const int number = meeting.number, turn = number % 2;
    meeting.brought[turn][place] = value;
    meeting.kinds[turn][place] = kind;
    if (++meeting.here == meeting.size) {
      for (const int other : meeting.kinds[turn])
        if (other != kind) fail("threads of a warp wait for each other at different steps");
      meeting.here = 0;
      ++meeting.number;
    }
    for (int turns = 0; meeting.number == number; ++turns) {
      if (turns > 1'000'000) fail("threads wait for some that do not come");
      swapcontext(&threads_[now_], &main_);
    }
    return meeting.brought[turn];
  }

  const std::function<void()>* work_ = nullptr;
  ucontext_t main_{}, threads_[kThreads]{};
  std::vector<bool> done_;
  Meeting warps_[kThreads / kWarp], all_;
  int now_ = 0;
};

struct Index {
  unsigned x;
};
inline Index index() {
  return {static_cast<unsigned>(Threads::only().now())};
}
inline int lane() {
  return Threads::only().now() % kWarp;
}

template <typename T>
T shuffle(T value, int source, int kind) {
  return static_cast<T>(
      Threads::only().meet_warp(static_cast<std::uint64_t>(value), kind)[source & 31]);
}

}  // namespace emulated

#define threadIdx (emulated::index())

template <typename T>
T __shfl_sync(unsigned, T value, int source) {
  return emulated::shuffle(value, source, 1);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned apart) {
  const int source = emulated::lane() - static_cast<int>(apart);
  return emulated::shuffle(value, source < 0 ? emulated::lane() : source, 2);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int apart) {
  return emulated::shuffle(value, emulated::lane() ^ apart, 3);
}
inline int __any_sync(unsigned, int bit) {
  for (const auto one : emulated::Threads::only().meet_warp(bit != 0, 4))
    if (one != 0) return 1;
  return 0;
}
inline unsigned __ballot_sync(unsigned, bool bit) {
  const auto& bits = emulated::Threads::only().meet_warp(bit, 7);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < bits.size(); ++lane)
    votes |= static_cast<unsigned>(bits[lane] != 0) << lane;
  return votes;
}
inline void __syncwarp() {
  emulated::Threads::only().meet_warp(0, 5);
}

inline bool emulated_barrier(int, bool bit) {
  for (const auto one : emulated::Threads::only().meet_all(bit, 6))
    if (one != 0) return true;
  return false;
}

template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}

template <typename T>
T atomicMin(T* at, T value) {
  const T before = *at;
  if (value < before) *at = value;
  return before;
}

inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}
inline int __clz(int bits) {
  return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}
inline int __clzll(long long bits) {
  return bits == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(bits));
}
inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31));
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned taken) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  unsigned bytes = 0;
  for (int i = 0; i < 4; ++i)
    bytes |= static_cast<unsigned>(both >> 8 * (taken >> 4 * i & 7) & 0xFF) << 8 * i;
  return bytes;
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
