#include "calls/ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "watch/ticks.hpp"

namespace lanescope::calls {

namespace {

constexpr std::size_t kFileBytes = kRecordsAt + kRecords * sizeof(Record);
constexpr int kMostFiles = 10000;  // of one pid, which changes its program or is in many namespaces
constexpr std::uint64_t kLeastFree = 24 << 20;  // bytes: a program may need that memory more

int new_file(const std::string& folder, std::string& path) {
  const std::string stem = folder + "/calls." + std::to_string(getpid());
  for (int number = 0; number < kMostFiles; ++number) {
    path = stem + (number == 0 ? "" : "." + std::to_string(number)) + ".ring";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/// @return whether a file of this size can be had: a limit on sizes would end the program, and what
/// little is left is the program's.
bool has_room(int file) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kFileBytes) return false;
  struct statvfs disk;
  return fstatvfs(file, &disk) != 0 ||
         static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize >= kLeastFree;
}

std::uint64_t pid_namespace() noexcept {
  struct stat found;
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

std::uint32_t thread_number() noexcept {
  static thread_local const auto number = static_cast<std::uint32_t>(syscall(SYS_gettid));
  return number;
}

}  // namespace

Ring* Ring::create(const std::string& folder, const std::string& text) noexcept try {
  std::string path;
  const int file = new_file(folder, path);
  if (file < 0) return nullptr;
  // All of its room at once: a write into a page without any ends the program.
  void* mapped = MAP_FAILED;
  if (has_room(file) && posix_fallocate(file, 0, kFileBytes) == 0)
    mapped = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  close(file);
  if (mapped == MAP_FAILED) {
    unlink(path.c_str());
    return nullptr;
  }
  auto* bytes = static_cast<char*>(mapped);
  const std::size_t size = std::min(text.size(), kRecordsAt - kTextAt);
  std::copy_n(text.data(), size, bytes + kTextAt);
  auto* ring = new Ring(bytes);
  reinterpret_cast<std::atomic<std::uint64_t>&>(ring->numbers_->text_bytes).store(size);
  return ring;
} catch (...) {  // no memory
  return nullptr;
}

Ring::Ring(char* file) noexcept
    : numbers_(new(file) Numbers{}), records_(reinterpret_cast<Record*>(file + kRecordsAt)) {
  std::memcpy(numbers_->magic, kMagic, sizeof kMagic);
  numbers_->records_at = kRecordsAt;
  numbers_->records = kRecords;
  numbers_->has_ticks = watch::ticks_are_steady() ? 1 : 0;
  const watch::TickPair begun = watch::tick_pair();
  numbers_->start_ticks = begun.ticks;
  numbers_->start_ns = static_cast<std::uint64_t>(begun.monotonic_ns);
  numbers_->process = static_cast<std::uint64_t>(getpid());
  numbers_->pid_namespace = pid_namespace();
}

void Ring::add(const Copy& copy, std::uint64_t start, std::uint64_t end) noexcept {
  const std::uint64_t number = numbers_->next.fetch_add(1, std::memory_order_relaxed);
  Record& record = records_[number % kRecords];
  // Whoever reads meanwhile sees that it is not whole.
  record.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  record.start = start;
  record.end = end;
  record.bytes = copy.bytes;
  record.stream = copy.stream;
  record.thread = thread_number();
  record.call = copy.call;
  record.source_kind = copy.source_kind;
  record.destination_kind = copy.destination_kind;
  record.asynchronous = copy.asynchronous ? 1 : 0;
  record.source_device = copy.source_device;
  record.destination_device = copy.destination_device;
  record.device = copy.device;
  record.sequence.store(number + 1, std::memory_order_release);
  if (outer_ != nullptr) outer_->add(copy, start, end);
}

void Ring::add_graph_launch() noexcept {
  reinterpret_cast<std::atomic<std::uint64_t>&>(numbers_->graph_launches)
      .fetch_add(1, std::memory_order_relaxed);
  if (outer_ != nullptr) outer_->add_graph_launch();
}

}  // namespace lanescope::calls
