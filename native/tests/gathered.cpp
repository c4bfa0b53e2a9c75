// Programs that make many tiny copies, over the driver of mock_driver.cpp: `gathered CASE` prints
// what it sees, which is to be the same with and without liblanescope_batch.so before it.
#include <cuda.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "over_mock.hpp"

extern "C" {
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuMemHostRegister_v2(void*, std::size_t, unsigned);
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
}

namespace {

using namespace over_mock;
constexpr std::size_t kKiB = 1024;
constexpr unsigned char kPoison = 0xEE;

CUdeviceptr number(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

/// Copy, and change the memory at once: the call has returned.
CUresult tiny(CUdeviceptr to, std::size_t bytes, CUstream stream, unsigned seed,
              bool by_name = true) {
  Bytes from = some_bytes(bytes, seed);
  const CUresult result = by_name ? CALL(cuMemcpyHtoDAsync_v2)(to, from.data(), bytes, stream)
                                  : CALL(cuMemcpyAsync)(to, number(from.data()), bytes, stream);
  std::memset(from.data(), kPoison, bytes);
  return result;
}

/// `count` copies one behind the other on the GPU, but for a gap.
int many(CUdeviceptr to, std::size_t bytes, std::size_t count, CUstream stream, unsigned seed = 1,
         std::size_t gap = 0) {
  int failed = 0;
  for (std::size_t i = 0; i < count; ++i)
    failed += tiny(to + i * (bytes + gap), bytes, stream, seed + static_cast<unsigned>(i)) != 0;
  return failed;
}

void synchronize(CUstream stream) {
  CALL(cuStreamSynchronize)(stream);
}

/// What is on a GPU after its stream has been waited for, by no call that is not one of ours.
void show_behind(const char* what, CUdeviceptr at, std::size_t bytes, CUstream stream) {
  synchronize(stream);
  show(what, reinterpret_cast<void*>(at), bytes);
}

void clear(CUdeviceptr at, std::size_t bytes) {
  CALL(cuCtxSynchronize)();
  std::memset(reinterpret_cast<void*>(at), 0, bytes);
}

/// Work that takes a while and then fills memory, by a call that is one of ours.
void fill_by(CUstream stream, Fill& fill) {
  CALL(cuLaunchHostFunc)(stream, do_fill, &fill);
}

struct Gpu {
  CUcontext context = begin();
  std::size_t bytes = 4 * kMiB;
  CUdeviceptr memory = on_gpu(bytes);
  CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
};

// ---- Cases

/// Sizes, numbers and distances; more than a batch holds, and than may be under way.
void sizes() {
  Gpu gpu;
  for (const CUstream stream : {gpu.stream, CUstream{CU_STREAM_LEGACY}, CUstream{nullptr}})
    for (const std::size_t bytes :
         {std::size_t{1}, 37 * kKiB / 37, 1021 * kKiB / 1024, 16 * kKiB, 64 * kKiB, 64 * kKiB + 1})
      for (const std::size_t count : {2, 3, 9, 70, 300}) {
        if (bytes * count > gpu.bytes) continue;
        const std::size_t gap = count % 2 == 1 && (bytes + 5) * count <= gpu.bytes ? 5 : 0;
        clear(gpu.memory, gpu.bytes);
        const int failed = many(gpu.memory, bytes, count, stream, 1, gap);
        std::printf("%zu times %zu: %d ", count, bytes, failed);
        show_behind("there", gpu.memory, gpu.bytes, stream);
      }
  std::printf("none: %d\n", tiny(gpu.memory, 0, gpu.stream, 1));
}

/// Copies that overlap each other in all ways keep their order.
void overlaps() {
  Gpu gpu;
  unsigned state = 1;
  const auto next = [&](unsigned most) { return (state = state * 1103515245 + 12345) % most; };
  for (const CUstream stream : {gpu.stream, CUstream{CU_STREAM_LEGACY}})
    for (int round = 0; round < 20; ++round) {
      const unsigned span = 200u << (round % 8);
      for (unsigned i = 0; i < 100; ++i)
        tiny(gpu.memory + next(span), 1 + next(span), stream, i, i % 3 != 0);
      show_behind("there", gpu.memory, 2 * span, stream);
    }
}

/// Calls of all kinds that come behind copies; each would show what is not there.
void ends() {
  Gpu gpu;
  const std::size_t part = 3 * kKiB, bytes = 8 * part;
  const CUdeviceptr other = on_gpu(bytes);
  const CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
  CUevent event = nullptr;
  cuEventCreate(&event, 0);
  static Bytes back(bytes);
  static CUdeviceptr at = gpu.memory;
  const auto look = [](void*) {
    std::memcpy(back.data(), reinterpret_cast<void*>(at), back.size());
  };
  const auto kernel = [](void* value) {
    std::memcpy(value, reinterpret_cast<void*>(at), back.size());
  };
  std::vector<std::pair<const char*, std::function<void(CUstream)>>> calls;
  calls.emplace_back("synchronize", [&](CUstream s) {
    synchronize(s);
    std::memcpy(back.data(), reinterpret_cast<void*>(at), bytes);
  });
  calls.emplace_back("synchronize all", [&](CUstream) {
    CALL(cuCtxSynchronize)();
    std::memcpy(back.data(), reinterpret_cast<void*>(at), bytes);
  });
  calls.emplace_back("query", [&](CUstream s) {
    while (CALL(cuStreamQuery)(s) != CUDA_SUCCESS) continue;
    std::memcpy(back.data(), reinterpret_cast<void*>(at), bytes);
  });
  calls.emplace_back("event", [&](CUstream s) {
    CALL(cuEventRecord)(event, s);
    while (CALL(cuEventQuery)(event) != CUDA_SUCCESS) continue;
    std::memcpy(back.data(), reinterpret_cast<void*>(at), bytes);
  });
  calls.emplace_back("other stream", [&](CUstream s) {
    CALL(cuEventRecord)(event, s);
    CALL(cuStreamWaitEvent)(second, event, 0);
    CALL(cuMemcpyDtoHAsync_v2)(back.data(), at, bytes, second);
  });
  calls.emplace_back("host function", [&](CUstream s) {
    CALL(cuLaunchHostFunc)(s, look, nullptr);
    synchronize(s);
  });
  calls.emplace_back("kernel", [&](CUstream s) {
    void* value = back.data();
    void* values[] = {&value};
    const CUfunction function = reinterpret_cast<CUfunction>(+kernel);
    CALL(cuLaunchKernel)(function, 2, 3, 5, 7, 11, 13, 17, s, values, nullptr);
    std::printf("launched with %x\n", mock_launched());
    CALL(cuLaunchKernel)(function, 2, 3, 5, 7, 11, 13, 17, s, values, values);
    std::printf("launched with %x\n", mock_launched());
    synchronize(s);
  });
  calls.emplace_back("copy back",
                     [&](CUstream s) { CALL(cuMemcpyDtoHAsync_v2)(back.data(), at, bytes, s); });
  calls.emplace_back("copy across", [&](CUstream s) {
    CALL(cuMemcpyAsync)(other, at, bytes, s);
    CALL(cuMemcpyDtoHAsync_v2)(back.data(), other, bytes, s);
  });
  calls.emplace_back("large copy", [&](CUstream s) {
    static const Bytes large = some_bytes(kMiB, 9);
    CALL(cuMemcpyHtoDAsync_v2)(at + part, large.data(), large.size(), s);
    CALL(cuMemcpyDtoHAsync_v2)(back.data(), at, bytes, s);
  });
  calls.emplace_back("fill", [&](CUstream s) {
    CALL(cuMemsetD8Async)(at + part / 2, 7, part, s);
    CALL(cuMemcpyDtoHAsync_v2)(back.data(), at, bytes, s);
  });
  calls.emplace_back("synchronous copy", [&](CUstream s) {
    synchronize(s);
    CALL(cuMemcpyDtoH_v2)(back.data(), at, bytes);
  });
  calls.emplace_back("another thread", [&](CUstream s) {
    std::thread([&] {
      CALL(cuCtxSetCurrent)(gpu.context);
      CALL(cuMemsetD8Async)(at + part / 2, 7, part, s);
      CALL(cuMemcpyDtoHAsync_v2)(back.data(), at, bytes, s);
    }).join();
  });
  calls.emplace_back("another thread's copy", [&](CUstream s) {
    std::thread([&] {
      CALL(cuCtxSetCurrent)(gpu.context);
      tiny(at + part / 2, part, s, 77);
      tiny(at + part, part, s, 78);
    }).join();
    CALL(cuMemcpyDtoHAsync_v2)(back.data(), at, bytes, s);
  });
  for (const CUstream stream : {gpu.stream, CUstream{CU_STREAM_LEGACY}})
    for (const auto& [name, call] : calls) {
      clear(at, bytes);
      clear(number(back.data()), bytes);
      const int failed = many(at, part, 8, stream, 5);
      call(stream);
      std::printf("%s: %d ", name, failed);
      show("back", back.data(), bytes);
    }
}

/// The legacy default stream waits for streams that are blocking, and they for it.
void default_streams() {
  Gpu gpu;
  const CUstream blocking = new_stream();
  const std::size_t bytes = 64 * kKiB;
  Bytes back(bytes);
  for (int round = 0; round < 3; ++round) {
    Fill before{gpu.memory, bytes, 1, 2}, after{gpu.memory + 100, 1000, 2, 0};
    fill_by(blocking, before);
    many(gpu.memory, 1000, 20, nullptr, 3, 24);
    fill_by(blocking, after);
    CALL(cuMemcpyDtoHAsync_v2)(back.data(), gpu.memory, bytes, blocking);
    synchronize(blocking);
    show("back", back.data(), bytes);
    // each thread's own: nobody else can put anything there
    Fill own{gpu.memory, bytes, 3, 5};
    fill_by(CU_STREAM_PER_THREAD, own);
    for (unsigned i = 0; i < 20; ++i) {
      Bytes from = some_bytes(1000, i);
      CALL(cuMemcpyHtoDAsync_v2_ptsz)(gpu.memory + 1000 * i, from.data(), 1000, nullptr);
    }
    if (round > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CALL(cuMemcpyDtoHAsync_v2_ptsz)(back.data(), gpu.memory, bytes, nullptr);
    show("own", back.data(), bytes);
  }
}

/// Work of a GPU waits for a copy, while the program makes no call.
void late() {
  Gpu gpu;
  const CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
  for (const CUstream stream : {gpu.stream, CUstream{CU_STREAM_LEGACY}})
    for (int round = 0; round < 5; ++round) {
      clear(gpu.memory, kKiB);
      static std::atomic<bool> is_seen;
      is_seen = false;
      CALL(cuLaunchHostFunc)(
          second,
          [](void* memory) {
            const std::atomic_ref<unsigned char> last(
                static_cast<unsigned char*>(memory)[kKiB - 1]);
            while (last.load() == 0) std::this_thread::yield();
            is_seen = true;
          },
          reinterpret_cast<void*>(gpu.memory));
      Bytes ones(kKiB / 4, 1);
      for (std::size_t i = 0; i < 4; ++i)
        CALL(cuMemcpyHtoDAsync_v2)(gpu.memory + i * kKiB / 4, ones.data(), kKiB / 4, stream);
      while (!is_seen) std::this_thread::yield();
      std::puts("seen");
    }
}

/// Threads that copy at the same time, each in a stream of its own, with pauses and without.
void threads() {
  const Gpu gpu;
  constexpr std::size_t kThreads = 4, kRounds = 12;
  std::vector<std::string> said(kThreads);
  std::vector<std::thread> all;
  for (std::size_t number_of = 0; number_of < kThreads; ++number_of)
    all.emplace_back([&, number_of] {
      CALL(cuCtxSetCurrent)(gpu.context);
      const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
      const CUdeviceptr own = gpu.memory + number_of * kMiB;
      for (std::size_t round = 0; round < kRounds; ++round) {
        const std::size_t bytes = 100 + 700 * number_of, count = 10 + 9 * round;
        if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        const int failed = many(own, bytes, count, stream, static_cast<unsigned>(round), round % 2);
        Bytes back(count * (bytes + round % 2));
        CALL(cuMemcpyDtoHAsync_v2)(back.data(), own, back.size(), stream);
        if (round % 2 == 1)  // the gaps have what was there before
          for (std::size_t i = 0; i < count; ++i) back[i * (bytes + 1) + bytes] = 0;
        said[number_of] +=
            std::to_string(failed) + " " + std::to_string(hash_of(back.data(), back.size())) + "\n";
      }
    });
  for (auto& one : all) one.join();
  for (const auto& text : said) std::fputs(text.c_str(), stdout);
}

/// One thread with two contexts, in turns; the default streams of both have one handle.
void contexts() {
  const CUcontext first = begin(0), second = begin(1);
  CALL(cuCtxSetCurrent)(first);
  const CUdeviceptr of_first = on_gpu(kMiB);
  CALL(cuCtxSetCurrent)(second);
  const CUdeviceptr of_second = on_gpu(kMiB);
  for (unsigned round = 0; round < 6; ++round)
    for (const auto& [context, own, other] :
         {std::tuple{first, of_first, of_second}, std::tuple{second, of_second, of_first}}) {
      CALL(cuCtxSetCurrent)(context);
      int failed = many(own, 500, 10, nullptr, round);
      failed += tiny(other, 500, nullptr, round) != 0;  // unified addresses allow that
      failed += many(own + 5000, 500, 10, nullptr, round);
      CALL(cuCtxSynchronize)();
      std::printf("%d ", failed);
      show("own", reinterpret_cast<void*>(own), kMiB);
    }
  CALL(cuCtxSetCurrent)(nullptr);
  std::printf("%d\n", many(of_first, 500, 3, nullptr));
}

/// Contexts that are destroyed behind copies; the next one has the handle of the last.
void resets() {
  for (unsigned round = 0; round < 20; ++round) {
    Gpu gpu;
    const int failed = many(gpu.memory, 900, 30, gpu.stream, round);
    if (round % 2 == 0) show_behind("there", gpu.memory, 30 * 900, gpu.stream);
    std::printf("%d %d\n", failed, CALL(cuCtxDestroy_v2)(gpu.context));
  }
}

/// What is not pageable memory, or not memory of the GPU.
void others() {
  Gpu gpu;
  const std::size_t bytes = 2 * kKiB;
  void* pinned = nullptr;
  CUdeviceptr managed = 0;
  cuMemHostAlloc(&pinned, 64 * kKiB, 0);
  cuMemAllocManaged(&managed, 64 * kKiB, 0);
  for (int round = 0; round < 3; ++round) {
    // work of the stream writes what it then copies, which is read behind it
    Fill fill{number(pinned), 64 * kKiB, round + 1, 2};
    fill_by(gpu.stream, fill);
    for (std::size_t i = 0; i < 10; ++i)
      CALL(cuMemcpyHtoDAsync_v2)(gpu.memory + i * bytes, static_cast<char*>(pinned) + i * bytes,
                                 bytes, gpu.stream);
    show_behind("pinned", gpu.memory, 64 * kKiB, gpu.stream);
    many(gpu.memory, 100, 5, gpu.stream);
    for (std::size_t i = 0; i < 3; ++i) {
      CALL(cuMemcpyHtoDAsync_v2)(gpu.memory + 50 * i, pinned, 100, gpu.stream);
      tiny(gpu.memory + 50 * i + 200, 100, gpu.stream, 3);
      tiny(gpu.memory + 50 * i + 230, 100, gpu.stream, 4);
      CALL(cuMemcpyAsync)(gpu.memory + 220, managed, 100, gpu.stream);
      tiny(managed, 100, gpu.stream, 6);
      tiny(managed + 200, 100, gpu.stream, 6);
    }
    show_behind("mixed", gpu.memory, 64 * kKiB, gpu.stream);
  }
  const CUdeviceptr end = gpu.memory + gpu.bytes;
  std::printf("beyond: %d", many(end - 500, 100, 4, gpu.stream));
  std::printf(" %d", tiny(end - 100, 100, gpu.stream, 1));
  std::printf(" %d", tiny(end - 99, 100, gpu.stream, 1));
  std::printf(" %d\n", tiny(end - 200, 100, gpu.stream, 1));
  show_behind("end", end - kKiB, kKiB, gpu.stream);
  // memory that becomes pinned, and pageable again, between copies
  Bytes memory(64 * kKiB, 3);
  many(gpu.memory, 300, 5, gpu.stream);
  cuMemHostRegister_v2(memory.data(), memory.size(), 0);
  Fill registered{number(memory.data()), memory.size(), 5, 2};
  fill_by(gpu.stream, registered);
  for (std::size_t i = 0; i < 5; ++i)
    CALL(cuMemcpyHtoDAsync_v2)(gpu.memory + i * 300, memory.data(), 300, gpu.stream);
  show_behind("registered", gpu.memory, kKiB, gpu.stream);
}

/// Before a capture, into it, and beside it.
void capture() {
  Gpu gpu;
  const CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
  for (int round = 0; round < 3; ++round) {
    many(gpu.memory, 200, 10, gpu.stream);
    CALL(cuStreamBeginCapture_v2)(gpu.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    const int into = many(gpu.memory + 300, 200, 10, gpu.stream);
    const int beside = many(gpu.memory + 10000, 200, 10, other);
    CUgraph graph = nullptr;
    const int ended = CALL(cuStreamEndCapture)(gpu.stream, &graph);
    std::printf("%d %d end %d captured %d\n", into, beside, ended, mock_captured_copies());
    many(gpu.memory + 20000, 200, 10, gpu.stream);
    synchronize(other);
    show_behind("there", gpu.memory, gpu.bytes, gpu.stream);
  }
  // one begins while another thread copies
  std::atomic<bool> ended = false;
  std::thread copies([&] {
    CALL(cuCtxSetCurrent)(gpu.context);
    while (!ended) many(gpu.memory + 40000, 100, 10, other);
  });
  int failed = 0;
  for (int i = 0; i < 20; ++i) {
    CUgraph graph = nullptr;
    CALL(cuStreamBeginCapture_v2)(gpu.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    failed += CALL(cuStreamEndCapture)(gpu.stream, &graph);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  ended = true;
  copies.join();
  std::printf("failed %d\n", failed);
  synchronize(other);
  show_behind("there", gpu.memory, gpu.bytes, gpu.stream);
}

/// A stream that does not come to the copies: their calls return all the same.
void waiting() {
  Gpu gpu;
  static std::atomic<bool> goes_on;
  for (const CUstream stream : {gpu.stream, CUstream{CU_STREAM_LEGACY}}) {
    clear(gpu.memory, gpu.bytes);
    goes_on = false;
    CALL(cuLaunchHostFunc)(
        stream,
        [](void*) {
          while (!goes_on) std::this_thread::yield();
        },
        nullptr);
    const int failed = many(gpu.memory, 1000, 2000, stream, 1, 24);
    goes_on = true;
    std::printf("%d ", failed);
    show_behind("there", gpu.memory, gpu.bytes, stream);
  }
}

/// Copies behind work that goes on until all have returned.
void busy() {
  Gpu gpu;
  static std::atomic<bool> goes_on = false;
  CALL(cuLaunchHostFunc)(
      gpu.stream,
      [](void*) {
        while (!goes_on) std::this_thread::yield();
      },
      nullptr);
  const int failed = many(gpu.memory, 1000, 40, gpu.stream, 1, 24);
  goes_on = true;
  std::printf("%d ", failed);
  show_behind("there", gpu.memory, gpu.bytes, gpu.stream);
}

/// Copies in a stream that comes to each before the next, as the first ones do.
void idle() {
  Gpu gpu;
  for (unsigned round = 0; round < 40; ++round) {
    std::printf("%d ", tiny(gpu.memory + 1024 * round, 1000, gpu.stream, round));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  show_behind("there", gpu.memory, gpu.bytes, gpu.stream);
}

/// One thread with two streams, of which one waits until the other's copies have been seen.
void streams() {
  Gpu gpu;
  const CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
  static std::atomic<bool> goes_on;
  for (unsigned round = 0; round < 5; ++round) {
    goes_on = false;
    CALL(cuLaunchHostFunc)(
        gpu.stream,
        [](void*) {
          while (!goes_on) std::this_thread::yield();
        },
        nullptr);
    for (unsigned i = 0; i < 3; ++i) {  // fewer than there are chunks
      many(gpu.memory, 300, 1 + i % 4, gpu.stream, round);
      many(gpu.memory + 5000, 300, 1 + i % 3, other, round + i);
    }
    show_behind("other", gpu.memory + 5000, 3000, other);
    goes_on = true;
    show_behind("first", gpu.memory, 3000, gpu.stream);
  }
}

/// Children by fork amid copies.
void forks() {
  Gpu gpu;
  for (unsigned round = 0; round < 10; ++round) {
    many(gpu.memory, 300, 10, gpu.stream, round);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      const int copied = tiny(gpu.memory, 300, gpu.stream, 1);
      _exit(10 * copied + CALL(cuMemcpyHtoD_v2)(gpu.memory, &child, 1));
    }
    many(gpu.memory + 3000, 300, 10, gpu.stream, round);
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child %d ", WEXITSTATUS(status));
    show_behind("there", gpu.memory, 6000, gpu.stream);
  }
}

/// A GPU that fails: the driver's calls say so, and once.
void failing() {
  Gpu gpu;
  many(gpu.memory, 300, 10, gpu.stream);
  show_behind("before", gpu.memory, kMiB, gpu.stream);
  mock_fail_after(0);  // the next batch; its copies are made one by one
  many(gpu.memory, 300, 10, gpu.stream, 40);
  show_behind("there", gpu.memory, kMiB, gpu.stream);
  mock_fail_after(-1);
  many(gpu.memory, 300, 10, gpu.stream, 50);
  show_behind("again", gpu.memory, kMiB, gpu.stream);
}

/// The same where copies cannot be made at all: told once, by the next call. Differs from a run
/// without batches, where such copies fail themselves.
void lost() {
  Gpu gpu;
  mock_always_fails(true);
  int told = many(gpu.memory, 300, 10, gpu.stream);
  const CUresult ended = CALL(cuStreamSynchronize)(gpu.stream);
  told += ended != CUDA_SUCCESS;
  mock_always_fails(false);
  std::printf("told %d, then %d\n", told, CALL(cuStreamSynchronize)(gpu.stream));
  std::printf("%d\n", many(gpu.memory, 300, 10, gpu.stream));
  show_behind("there", gpu.memory, 3000, gpu.stream);
}

jmp_buf& back_from() {
  static jmp_buf where;
  return where;
}

/// Memory that cannot be read is the thread's own error, which it may survive.
void forbidden() {
  Gpu gpu;
  void* none = mmap(nullptr, 64 * kKiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  signal(SIGSEGV, [](int) { longjmp(back_from(), 1); });
  for (volatile unsigned round = 0; round < 20; round = round + 1) {
    many(gpu.memory, 300, 5, gpu.stream, round);
    if (setjmp(back_from()) == 0) {
      CALL(cuMemcpyHtoDAsync_v2)(gpu.memory + 600, none, 300, gpu.stream);
      std::puts("copied");
    } else {
      std::printf("a signal, ");
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, SIGSEGV);
      pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    }
    many(gpu.memory + 700, 300, 5, gpu.stream, round);
    show_behind("there", gpu.memory, kMiB, gpu.stream);
  }
}

/// The process ends with copies that nobody waits for, also from a handler of its own.
void exits() {
  static Gpu gpu;
  std::atexit([] { std::printf("first %d\n", many(gpu.memory, 100, 5, gpu.stream)); });
  many(gpu.memory, 300, 10, gpu.stream);
  std::atexit([] { std::printf("second %d\n", many(gpu.memory, 100, 5, gpu.stream)); });
  many(gpu.memory, 300, 10, gpu.stream);
  std::exit(3);
}

/// Threads that end behind their copies.
void ending() {
  Gpu gpu;
  for (unsigned round = 0; round < 10; ++round) {
    std::thread([&] {
      CALL(cuCtxSetCurrent)(gpu.context);
      many(gpu.memory, 300, 10, gpu.stream, round);
    }).join();
    show_behind("there", gpu.memory, 3000, gpu.stream);
  }
}

/// Threads that are cancelled amid their copies.
void cancelled() {
  Gpu gpu;
  for (int round = 0; round < 10; ++round) {
    struct Given {
      Gpu* gpu;
      std::atomic<bool> begun{false};
    } given{&gpu};
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void* data) -> void* {
          auto& it = *static_cast<Given*>(data);
          CALL(cuCtxSetCurrent)(it.gpu->context);
          for (;;) {
            many(it.gpu->memory + 5000, 300, 10, it.gpu->stream);
            it.begun = true;
            pthread_testcancel();
          }
        },
        &given);
    while (!given.begun) std::this_thread::yield();
    pthread_cancel(thread);
    pthread_join(thread, nullptr);
    many(gpu.memory, 300, 10, gpu.stream);
    show_behind("there", gpu.memory, 8000, gpu.stream);
  }
}

}  // namespace

int main(int count, char** words) {
  const Case cases[] = {{"sizes", sizes},         {"overlaps", overlaps},
                        {"ends", ends},           {"default", default_streams},
                        {"late", late},           {"threads", threads},
                        {"contexts", contexts},   {"resets", resets},
                        {"others", others},       {"capture", capture},
                        {"waiting", waiting},     {"forks", forks},
                        {"failing", failing},     {"lost", lost},
                        {"forbidden", forbidden}, {"exits", exits},
                        {"ending", ending},       {"cancelled", cancelled},
                        {"busy", busy},           {"idle", idle},
                        {"streams", streams}};
  return run_case(cases, count, words);
}
