// Programs that copy pageable memory in ways that are hard to carry, over the driver of
// mock_driver.cpp: `boosted CASE` prints what it sees, which is to be the same with and without
// liblanescope_boost.so before it.
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "over_mock.hpp"

namespace {

using namespace over_mock;

// ---- Cases

/// All sizes, both ways, from addresses that are no multiples of anything.
void sizes() {
  begin();
  const CUdeviceptr gpu = on_gpu(24 * kMiB);
  constexpr std::size_t kKiB = 1024;
  for (const std::size_t bytes : {kKiB / 1024, 4 * kKiB, 256 * kKiB - 1, 256 * kKiB,
                                  700 * kKiB + 13, 3 * kMiB + 1, 20 * kMiB + 4097}) {
    Bytes out = some_bytes(bytes + 3, static_cast<unsigned>(bytes)), back(bytes + 3, 7);
    to_gpu(gpu + 5, out.data() + 3, bytes);
    std::memset(out.data(), 0, out.size());  // the call has returned: it is read
    from_gpu(back.data() + 3, gpu + 5, bytes);
    show("back", back.data(), back.size());
    CALL(cuMemcpy)(gpu, reinterpret_cast<CUdeviceptr>(back.data()), bytes);
    show_gpu("there", gpu, bytes);
    CALL(cuMemcpy)(reinterpret_cast<CUdeviceptr>(out.data()), gpu, bytes);
    show("and back", out.data(), bytes);
  }
}

/// A copy on a stream comes behind what the stream has been given, and before what it gets then.
void streams() {
  begin();
  const std::size_t bytes = 20 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes), other = on_gpu(bytes);
  for (const unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    const CUstream stream = new_stream(flags);
    Fill before{gpu, bytes, 1}, after{gpu, kMiB, 2, 0};
    Bytes out = some_bytes(bytes, flags), back(bytes);
    launch(stream, before);
    std::printf("%d\n", CALL(cuMemcpyHtoDAsync_v2)(gpu, out.data(), bytes, stream));
    std::memset(out.data(), 9, bytes);
    launch(stream, after);
    std::printf("%d\n", CALL(cuMemcpyDtoHAsync_v2)(back.data(), gpu, bytes, stream));
    cuStreamSynchronize(stream);
    show("back", back.data(), bytes);
    // within the stream's time, and read by another copy of the GPU behind it
    out = some_bytes(bytes, 5);
    CALL(cuMemcpyHtoDAsync_v2)(gpu, out.data(), 2 * kMiB, stream);
    CALL(cuMemcpyHtoDAsync_v2)(gpu + 2 * kMiB, out.data(), 3 * kMiB, stream);
    CALL(cuMemcpyAsync)(other, gpu, bytes, stream);
    cuStreamSynchronize(stream);
    show_gpu("other", other, bytes);
  }
}

/// The default stream waits for those that are blocking, and they for it; also by other threads.
void default_stream() {
  begin();
  const std::size_t bytes = 9 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes);
  const CUstream blocking = new_stream();
  Bytes out = some_bytes(bytes, 3), back(bytes);
  Fill before{gpu, bytes, 1}, after{gpu, kMiB, 2, 0};
  launch(blocking, before);
  to_gpu(gpu, out.data(), bytes);
  launch(blocking, after);
  from_gpu(back.data(), gpu, bytes);
  show("back", back.data(), bytes);
  Fill once_more{gpu, bytes, 4};
  launch(blocking, once_more);
  CALL(cuMemcpyHtoDAsync_v2)(gpu, out.data(), bytes, nullptr);
  cuStreamSynchronize(blocking);
  CALL(cuMemcpyDtoHAsync_v2)(back.data(), gpu, bytes, blocking);
  cuCtxSynchronize();
  show("back", back.data(), bytes);
}

/// Each thread has a default stream; its copies come behind what it was given by that thread.
void threads() {
  const CUcontext context = begin();
  constexpr int kThreads = 4;
  std::vector<std::string> said(kThreads);
  std::vector<std::thread> all;
  for (int number = 0; number < kThreads; ++number)
    all.emplace_back([&, number] {
      cuCtxSetCurrent(context);
      const std::size_t bytes = 3 * kMiB + static_cast<std::size_t>(number) * 1000;
      const CUdeviceptr gpu = on_gpu(bytes);
      Bytes out = some_bytes(bytes, static_cast<unsigned>(number)), back(bytes);
      for (int round = 0; round < 6; ++round) {
        Fill before{gpu, bytes, round, 2}, after{gpu, 1000, round, 0};
        launch(CU_STREAM_PER_THREAD, before);
        int failed = CALL(cuMemcpyHtoD_v2_ptds)(gpu, out.data(), bytes);
        launch(CU_STREAM_PER_THREAD, after);
        failed += CALL(cuMemcpyDtoH_v2_ptds)(back.data(), gpu, bytes);
        failed += CALL(cuMemcpyHtoDAsync_v2_ptsz)(gpu, back.data(), bytes, nullptr);
        std::memset(back.data(), 0, bytes);
        failed += CALL(cuMemcpyDtoHAsync_v2_ptsz)(back.data(), gpu, bytes, nullptr);
        said[static_cast<std::size_t>(number)] +=
            std::to_string(failed) + " " + std::to_string(hash_of(back.data(), bytes)) + "\n";
        cuStreamSynchronize(CU_STREAM_PER_THREAD);  // it still uses `before` and `after`
      }
    });
  for (auto& one : all) one.join();
  for (const auto& text : said) std::fputs(text.c_str(), stdout);
}

/// Copies by the library's own function, of threads without a context, each on one of two GPUs; by
/// the driver where there is no such function.
void direct() {
  using Copy = int (*)(std::uint64_t, std::uint64_t, std::size_t, std::uint64_t, int, int);
  const auto copy = reinterpret_cast<Copy>(dlsym(RTLD_DEFAULT, "lanescope_boost_copy"));
  begin();
  constexpr int kThreads = 4;
  std::vector<std::string> said(kThreads);
  std::vector<std::thread> all;
  for (int number = 0; number < kThreads; ++number)
    all.emplace_back([&, number] {
      const int gpu = number % 2;
      CUcontext primary = nullptr;
      cuDevicePrimaryCtxRetain(&primary, gpu);
      cuCtxSetCurrent(primary);
      const std::size_t bytes = kMiB + static_cast<std::size_t>(number) * 1000;
      const CUdeviceptr there = on_gpu(bytes);
      const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
      if (copy != nullptr) cuCtxSetCurrent(nullptr);
      Bytes out = some_bytes(bytes, static_cast<unsigned>(number)), back(bytes);
      for (int round = 0; round < 6; ++round) {
        const auto handle = reinterpret_cast<std::uint64_t>(stream);
        const auto to = reinterpret_cast<std::uint64_t>(back.data());
        const auto from = reinterpret_cast<std::uint64_t>(out.data());
        int failed = copy != nullptr ? copy(there, from, bytes, handle, gpu, 1)
                                     : cuMemcpyHtoDAsync_v2(there, out.data(), bytes, stream);
        failed += copy != nullptr ? copy(to, there, bytes, handle, gpu, 0)
                                  : cuMemcpyDtoHAsync_v2(back.data(), there, bytes, stream);
        said[static_cast<std::size_t>(number)] +=
            std::to_string(failed) + " " + std::to_string(hash_of(back.data(), bytes)) + "\n";
        out[0] = static_cast<unsigned char>(round);
      }
      CUcontext after = nullptr;
      cuCtxGetCurrent(&after);
      if (copy != nullptr && after != nullptr) said[0] += "a context is left\n";
    });
  for (auto& one : all) one.join();
  for (const auto& text : said) std::fputs(text.c_str(), stdout);
}

/// Several contexts and GPUs by one thread, in turns; memory and streams of another one.
void contexts() {
  const CUcontext first = begin(0), second = begin(1);
  const std::size_t bytes = 5 * kMiB;
  cuCtxSetCurrent(first);
  const CUdeviceptr of_first = on_gpu(bytes);
  const CUstream stream = new_stream();
  cuCtxSetCurrent(second);
  const CUdeviceptr of_second = on_gpu(bytes);
  for (unsigned round = 0; round < 4; ++round) {
    Bytes out = some_bytes(bytes, round), back(bytes);
    for (const auto& [context, own, other] :
         {std::tuple{first, of_first, of_second}, std::tuple{second, of_second, of_first}}) {
      cuCtxSetCurrent(context);
      to_gpu(own, out.data(), bytes);
      from_gpu(back.data(), own, bytes);
      to_gpu(other, back.data(), bytes);  // unified addresses allow that
      cuCtxSynchronize();
      show("back", back.data(), bytes);
    }
  }
  std::printf("%d\n", CALL(cuMemcpyHtoDAsync_v2)(of_second, Bytes(bytes).data(), bytes, stream));
  cuCtxSetCurrent(nullptr);
  to_gpu(of_first, Bytes(bytes).data(), bytes);
}

/// What is not pageable memory, and not of the size that was given out.
void others() {
  begin();
  const std::size_t bytes = 4 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes), gpu2 = on_gpu(bytes);
  CUdeviceptr managed = 0;
  cuMemAllocManaged(&managed, bytes, 0);
  void* pinned = nullptr;
  cuMemHostAlloc(&pinned, bytes, 0);
  Bytes out = some_bytes(bytes, 1);
  std::memcpy(pinned, out.data(), bytes);
  std::memcpy(reinterpret_cast<void*>(managed), out.data(), bytes);
  to_gpu(gpu, pinned, bytes);
  from_gpu(pinned, gpu, bytes);
  show("pinned", pinned, bytes);
  to_gpu(gpu, reinterpret_cast<void*>(managed), bytes);
  to_gpu(managed, out.data(), bytes);
  CALL(cuMemcpy)(gpu2, gpu, bytes);
  show_gpu("gpu", gpu2, bytes);
  to_gpu(gpu + 1, out.data(), bytes);  // a byte too many
  from_gpu(out.data(), gpu + kMiB, bytes);
  to_gpu(gpu, out.data(), 0);
  // the first half is registered
  cuMemHostRegister(out.data(), bytes / 2, 0);
  to_gpu(gpu, out.data(), bytes / 2);
  std::printf("pageable copies by the driver: %s\n", mock_pageable_copies() > 0 ? "some" : "none");
}

/// Memory without pages yet: new, given back, of files, and read alone.
void fresh() {
  begin();
  const std::size_t bytes = 17 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes);
  const Bytes out = some_bytes(bytes, 8);
  to_gpu(gpu, out.data(), bytes);
  const int both = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
  auto* memory = static_cast<char*>(mmap(nullptr, bytes, both, flags, -1, 0));
  from_gpu(memory, gpu, bytes);
  show("new", memory, bytes);
  madvise(memory, bytes, MADV_DONTNEED);
  from_gpu(memory + 123, gpu, bytes - 456);
  show("again", memory, bytes);
  madvise(memory, bytes, MADV_DONTNEED);
  to_gpu(gpu, memory, bytes);  // all zeros
  show_gpu("zeros", gpu, bytes);
  char name[] = "/tmp/boosted.XXXXXX";
  const int file = mkstemp(name);
  unlink(name);
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) return;
  auto* mapped = static_cast<char*>(mmap(nullptr, bytes, both, MAP_SHARED, file, 0));
  to_gpu(gpu, out.data(), bytes);
  from_gpu(mapped, gpu, bytes);
  show("file", mapped, bytes);
  to_gpu(gpu, mapped, bytes);
  show_gpu("of file", gpu, bytes);
}

/// Memory that may not be read or written: each in a child, which tells how that ended.
void forbidden() {
  const std::size_t bytes = 3 * kMiB;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  auto* none = static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, flags, -1, 0));
  auto* hole = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0));
  std::memset(hole, 1, bytes);
  munmap(hole + kMiB, kMiB);
  auto* constant = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0));
  std::memset(constant, 1, bytes);
  mprotect(constant, bytes, PROT_READ);
  struct {
    const char* name;
    char* memory;
    bool in;
  } const all[] = {{"none in", none, true},         {"none out", none, false},
                   {"hole in", hole, true},         {"hole out", hole, false},
                   {"constant in", constant, true}, {"constant out", constant, false}};
  for (const auto& one : all) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      begin();
      const CUdeviceptr gpu = on_gpu(bytes);
      if (one.in)
        to_gpu(gpu, one.memory, bytes);
      else
        from_gpu(one.memory, gpu, bytes);
      show_gpu("there", gpu, bytes);
      std::fflush(stdout);
      _exit(5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("%s: code %d signal %d\n", one.name, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  }
}

/// Copies while a stream is captured: into it, and beside it by another thread.
void capture() {
  const CUcontext context = begin();
  const std::size_t bytes = 2 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes);
  const CUstream captured = new_stream(CU_STREAM_NON_BLOCKING);
  const CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
  const Bytes out = some_bytes(bytes, 2);
  to_gpu(gpu, out.data(), bytes);
  cuCtxSynchronize();
  const auto begin_capture = CALL(cuStreamBeginCapture_v2);
  begin_capture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::printf("%d\n", CALL(cuMemcpyHtoDAsync_v2)(gpu, out.data(), bytes, captured));
  std::thread([&] {
    cuCtxSetCurrent(context);
    std::printf("%d\n", CALL(cuMemcpyHtoDAsync_v2)(gpu, out.data(), bytes, other));
  }).join();
  CUgraph graph = nullptr;
  std::printf("end %d, captured %d\n", CALL(cuStreamEndCapture)(captured, &graph),
              mock_captured_copies());
  // one that begins while a copy is under way
  std::atomic<bool> ended = false;
  std::thread copies([&] {
    cuCtxSetCurrent(context);
    while (!ended) CALL(cuMemcpyHtoDAsync_v2)(gpu, out.data(), bytes, other);
  });
  int failed = 0;
  for (int i = 0; i < 20; ++i) {
    begin_capture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    failed += CALL(cuStreamEndCapture)(captured, &graph);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ended = true;
  copies.join();
  std::printf("failed %d\n", failed);
  show_gpu("there", gpu, bytes);
}

/// A child by fork while copies are under way, and one that copies itself.
void forks() {
  const CUcontext context = begin();
  const std::size_t bytes = 2 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes);
  const Bytes out = some_bytes(bytes, 2);
  to_gpu(gpu, out.data(), bytes);
  std::atomic<bool> begun = false, ended = false;
  std::thread copies([&] {
    cuCtxSetCurrent(context);
    do {
      CALL(cuMemcpyHtoD_v2)(gpu, out.data(), bytes);
      begun = true;
    } while (!ended);
  });
  while (!begun) std::this_thread::yield();
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(CALL(cuMemcpyHtoD_v2)(gpu, out.data(), bytes));
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child %d\n", WEXITSTATUS(status));
  }
  ended = true;
  copies.join();
  show_gpu("there", gpu, bytes);
}

/// A GPU that fails amid a copy: the driver has the last word.
void failing() {
  begin();
  const std::size_t bytes = 12 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes);
  Bytes out = some_bytes(bytes, 2), back(bytes);
  to_gpu(gpu, out.data(), bytes);
  mock_fail_after(3);
  from_gpu(back.data(), gpu, bytes);
  show("back", back.data(), bytes);
  mock_fail_after(2);
  to_gpu(gpu, back.data(), bytes);
  mock_fail_after(-1);
  to_gpu(gpu, out.data(), bytes);
  show_gpu("there", gpu, bytes);
}

/// A call that returns before its stream has come so far, as the program depends on.
void early() {
  begin();
  const std::size_t bytes = 2 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes);
  const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
  const Bytes warm = some_bytes(bytes, 1), out = some_bytes(bytes, 2);
  CALL(cuMemcpyHtoDAsync_v2)(gpu, warm.data(), bytes, stream);
  static std::atomic<bool> goes_on = false;
  cuLaunchHostFunc(
      stream,
      [](void*) {
        while (!goes_on) std::this_thread::yield();
      },
      nullptr);
  std::printf("%d\n", CALL(cuMemcpyHtoDAsync_v2)(gpu, out.data(), bytes, stream));
  // and another stream's copies go on meanwhile
  const CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr gpu2 = on_gpu(40 * kMiB);
  const Bytes more = some_bytes(40 * kMiB, 3);
  std::printf("%d\n", CALL(cuMemcpyHtoDAsync_v2)(gpu2, more.data(), more.size(), second));
  Bytes back(kMiB);
  std::printf("%d\n", CALL(cuMemcpyDtoHAsync_v2)(back.data(), gpu2, kMiB, second));
  show("back", back.data(), kMiB);
  goes_on = true;
  show_gpu("there", gpu, bytes);
  show_gpu("other", gpu2, more.size());
}

/// No files, variables and descriptors any more, once CUDA has begun.
void locked() {
  begin();
  const std::size_t bytes = 3 * kMiB;
  const CUdeviceptr gpu = on_gpu(bytes);
  clearenv();
  for (int file = 3; file < 64; ++file) close(file);
  const rlimit none{3, 3};
  setrlimit(RLIMIT_NOFILE, &none);
  Bytes out = some_bytes(bytes, 1), back(bytes);
  to_gpu(gpu, out.data(), bytes);
  from_gpu(back.data(), gpu, bytes);
  show("back", back.data(), bytes);
}

/// Contexts that are destroyed; the next one has the handle of the last.
void resets() {
  const std::size_t bytes = 9 * kMiB;
  for (unsigned round = 0; round < 6; ++round) {
    const CUcontext context = begin();
    const CUdeviceptr gpu = on_gpu(bytes);
    Bytes out = some_bytes(bytes, round), back(bytes);
    to_gpu(gpu, out.data(), bytes);
    from_gpu(back.data(), gpu, bytes);
    show("back", back.data(), bytes);
    std::printf("%d\n", cuCtxDestroy(context));
  }
}

/// Copies until somebody ends it.
void endless() {
  begin();
  const std::size_t bytes = kMiB;
  const CUdeviceptr gpu = on_gpu(bytes);
  const Bytes out = some_bytes(bytes, 1);
  for (int round = 0;; ++round) {
    CALL(cuMemcpyHtoD_v2)(gpu, out.data(), bytes);
    if (round == 2) {
      std::puts("some are over");
      std::fflush(stdout);
    }
  }
}

/// Take calls of newer kernels away, as a filter of system calls can: 1, those that populate pages;
/// 2, those that read memory through the kernel, too.
void forget_calls(int how_many) {
  const auto lower = [](std::uint64_t offset) { return static_cast<std::uint32_t>(offset); };
  const std::uint32_t number = lower(offsetof(seccomp_data, nr));
  const std::uint32_t advice = lower(offsetof(seccomp_data, args[2]));
  const std::uint32_t readv = how_many > 1 ? SYS_process_vm_readv : 0xFFFFFFFF;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, readv, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, advice),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 24, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 22, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof code / sizeof *code, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) std::puts("no filter");
}

}  // namespace

int main(int count, char** words) {
  if (const char* how_many = std::getenv("OLD_KERNEL")) forget_calls(std::atoi(how_many));
  const Case cases[] = {{"sizes", sizes},     {"streams", streams},     {"default", default_stream},
                        {"threads", threads}, {"contexts", contexts},   {"others", others},
                        {"fresh", fresh},     {"forbidden", forbidden}, {"capture", capture},
                        {"forks", forks},     {"failing", failing},     {"early", early},
                        {"locked", locked},   {"resets", resets},       {"endless", endless},
                        {"direct", direct}};
  return run_case(cases, count, words);
}
