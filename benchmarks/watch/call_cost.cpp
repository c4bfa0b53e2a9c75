// What recording costs a call that copies, nanoseconds each. See call_cost.sh.
//
//   call_cost DRIVER                 calls of a driver that does nothing, one after the other
//   call_cost DRIVER KIB             between two calls the program does other work, as real ones
//   do:
//                                    it runs much code and reads so much memory
//
// With KIB, calls as the program finds them and the driver's own take turns in one process, 64 of
// each; meanwhile a thread reads the ring every 50 ms, as lanescope does.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Find = int (*)(const char*, void**, int, std::uint64_t, void*);
using Copy = int (*)(std::uint64_t, const void*, std::size_t, void*);
using Clock = std::chrono::steady_clock;
using Lookup = void* (*)(void*, const char*);

constexpr int kPages = 64;
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kDevice = 1ULL << 46;

Copy found_copy(void* driver, Lookup look_up) {
  const auto begin = reinterpret_cast<int (*)(unsigned)>(look_up(driver, "cuInit"));
  if (begin != nullptr) begin(0);
  const auto find = reinterpret_cast<Find>(look_up(driver, "cuGetProcAddress_v2"));
  Copy copy = nullptr;
  find("cuMemcpyHtoDAsync", reinterpret_cast<void**>(&copy), 12000, 0, nullptr);
  return copy;
}

double ns_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begun).count();
}

/// Work that leaves nothing of the calls in the processor's nearest caches and branch tables.
class Work {
 public:
  explicit Work(std::size_t bytes) : lines_(bytes / sizeof(Line) + 1), order_(lines_.size()) {
    std::mt19937 random(1);
    std::iota(order_.begin(), order_.end(), 0U);
    std::shuffle(order_.begin(), order_.end(), random);
    std::shuffle(std::begin(pieces_), std::end(pieces_), random);
  }

  void run() noexcept {
    done_.fetch_add(1);  // as a lock that the runtime lets go of behind the call
    std::uint64_t value = done_;
    std::size_t line = 0;
    const std::size_t each = order_.size() / kPieces;
    for (const Piece piece : pieces_) {
      for (const std::size_t end = line + each; line < end; ++line)
        value += lines_[order_[line]].value;
      value = piece(value);
    }
    lines_[0].value = value;
    done_.fetch_add(1);
  }

 private:
  struct alignas(64) Line {
    std::uint64_t value = 1;
  };
  using Piece = std::uint64_t (*)(std::uint64_t);
  static constexpr std::size_t kPieces = 512;

  template <std::size_t kNumber>
  __attribute__((noinline, aligned(64))) static std::uint64_t piece(std::uint64_t value) noexcept {
    if ((value & 1) != 0) value = value * 0x9E3779B97F4A7C15 + kNumber;
    if ((value & 6) == 2) value ^= value >> (kNumber % 31 + 1);
    if ((value & 24) == 8) value += kNumber * 0x123456789;
    asm volatile("" : "+r"(value));
    return value | (kNumber & 1);
  }
  template <std::size_t... kNumbers>
  static void fill(Piece* pieces, std::index_sequence<kNumbers...>) {
    ((pieces[kNumbers] = &piece<kNumbers>), ...);
  }
  struct Pieces {
    Piece all[kPieces];
    Pieces() { fill(all, std::make_index_sequence<kPieces>()); }
    Piece* begin() { return all; }
    Piece* end() { return all + kPieces; }
  };

  std::vector<Line> lines_;
  std::vector<std::uint32_t> order_;
  Pieces pieces_;
  std::atomic<std::uint64_t> done_{0};
};

/// Reads all of the ring every 50 ms: what of it is new, the processor knows.
class Reader {
 public:
  Reader() : thread_([this] { run(); }) {}
  ~Reader() {
    ended_ = true;
    thread_.join();
  }

 private:
  void run() {
    const char* folder = std::getenv("LANESCOPE_CALLS_FOLDER");
    if (folder == nullptr) return;
    const std::uint64_t* ring = nullptr;
    std::size_t words = 0;
    while (!ended_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (ring == nullptr && entry.path().extension() == ".ring") {
          words = entry.file_size() / sizeof(std::uint64_t);
          const int file = open(entry.path().c_str(), O_RDONLY);
          void* mapped = mmap(nullptr, words * 8, PROT_READ, MAP_SHARED, file, 0);
          if (mapped != MAP_FAILED) ring = static_cast<const std::uint64_t*>(mapped);
          close(file);
        }
      std::uint64_t sum = 0;
      for (std::size_t i = 0; ring != nullptr && i < words; i += 8) sum += ring[i];
      read_ = sum;
    }
  }

  std::atomic<bool> ended_{false};
  std::atomic<std::uint64_t> read_{0};
  std::thread thread_;
};

void run_idle(Copy copy, const char* host) {
  constexpr int kCalls = 1'000'000;
  const auto run = [&] {
    const auto begun = Clock::now();
    for (int i = 0; i < kCalls; ++i)
      copy(kDevice + (i % kPages) * kPage, host + (i % kPages) * kPage, 1024, nullptr);
    return ns_since(begun) / kCalls;
  };
  run();
  for (int turn = 0; turn < 7; ++turn) std::printf("%.1f ns\n", run());
}

double quantile(std::vector<double> values, double part) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(part * (values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

/// Addresses that are copied from and to, one page for each call.
struct Pages {
  const char* host;
  std::uint64_t device;
};

/// @return nanoseconds of one call and what is behind it.
template <class Between, class After>
__attribute__((noinline)) double block(Copy copy, Pages pages, Between& between, After& after) {
  const auto begun = Clock::now();
  for (int i = 0; i < kPages; ++i) {
    if (copy(pages.device + i * kPage, pages.host + i * kPage, 1024, nullptr) != 0) std::exit(1);
    between();
  }
  after();
  return ns_since(begun) / kPages;
}

template <class Between, class After>
void run_in_turn(Copy copy, Copy original, Pages pages, Between between, After after) {
  constexpr int kBlocks = 3000, kTurns = 7;
  const Reader reader;
  for (int turn = -1; turn < kTurns; ++turn) {
    std::vector<double> plain, found;
    for (int i = 0; i < kBlocks; ++i) {
      plain.push_back(block(original, pages, between, after));
      found.push_back(block(copy, pages, between, after));
    }
    if (turn < 0) continue;
    const double base = quantile(plain, 0.1), middle = quantile(plain, 0.5);
    std::printf("%.0f ns and %+.1f ns (medians %.0f and %+.1f)\n", base,
                quantile(found, 0.1) - base, middle, quantile(found, 0.5) - middle);
  }
}

/// Calls the driver for what the copies need; ends the program where it refuses.
template <class... Arguments>
void call(void* driver, const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name));
  if (function != nullptr && function(arguments...) == 0) return;
  std::fprintf(stderr, "%s failed\n", name);
  std::exit(1);
}

void run_on_gpu(void* driver, Copy copy, Copy original) {
  void* context = nullptr;
  char* host = nullptr;
  std::uint64_t device = 0;
  call(driver, "cuDevicePrimaryCtxRetain", &context, 0);
  call(driver, "cuCtxSetCurrent", context);
  call(driver, "cuMemHostAlloc", &host, kPages * kPage, 0U);
  call(driver, "cuMemAlloc_v2", &device, kPages * kPage);
  const auto wait = reinterpret_cast<int (*)()>(dlsym(driver, "cuCtxSynchronize"));
  run_in_turn(copy, original, {host, device}, [] {}, [&] { wait(); });
}

}  // namespace

int main(int count, char** arguments) {
  void* driver = dlopen(arguments[1], RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const Copy copy = found_copy(driver, dlsym);
  std::vector<char> host(kPages * kPage);
  if (count < 3) {
    run_idle(copy, host.data());
    return 0;
  }
  // the C library's own, whatever is loaded before it
  void* library = dlopen("libc.so.6", RTLD_NOW);
  const Copy original = found_copy(driver, reinterpret_cast<Lookup>(dlsym(library, "dlsym")));
  if (std::string(arguments[2]) == "gpu") {
    run_on_gpu(driver, copy, original);
    return 0;
  }
  Work work(std::stoul(arguments[2]) << 10);
  run_in_turn(copy, original, {host.data(), kDevice}, [&] { work.run(); }, [] {});
}
