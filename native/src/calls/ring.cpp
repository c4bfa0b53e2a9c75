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

constexpr std::size_t kStacksAt = kRecordsAt + kRecords * sizeof(Record);
constexpr std::size_t kStackBytes = kStacks * sizeof(Stack) + kStackTextBytes;
constexpr std::size_t kMostProbes = 32;
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
bool has_room(int file, std::size_t bytes) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) return false;
  struct statvfs disk;
  return fstatvfs(file, &disk) != 0 ||
         static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize >= kLeastFree;
}

std::uint64_t pid_namespace() noexcept {
  struct stat found;
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

/// @return FNV-1a, and never 0.
std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash == 0 ? 1 : hash;
}

}  // namespace

Ring* Ring::create(const std::string& folder, const std::string& text,
                   std::uint64_t stacks_from) noexcept try {
  const std::size_t file_bytes = kStacksAt + (stacks_from == kNoStacks ? 0 : kStackBytes);
  std::string path;
  const int file = new_file(folder, path);
  if (file < 0) return nullptr;
  // All of its room at once: a write into a page without any ends the program.
  void* mapped = MAP_FAILED;
  if (has_room(file, file_bytes) && posix_fallocate(file, 0, file_bytes) == 0)
    mapped = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  close(file);
  if (mapped == MAP_FAILED) {
    unlink(path.c_str());
    return nullptr;
  }
  auto* bytes = static_cast<char*>(mapped);
  const std::size_t size = std::min(text.size(), kRecordsAt - kTextAt);
  std::copy_n(text.data(), size, bytes + kTextAt);
  auto* ring = new Ring(bytes, stacks_from);
  reinterpret_cast<std::atomic<std::uint64_t>&>(ring->numbers_->text_bytes).store(size);
  return ring;
} catch (...) {  // no memory
  return nullptr;
}

Ring::Ring(char* file, std::uint64_t stacks_from) noexcept
    : numbers_(new(file) Numbers{}),
      records_(reinterpret_cast<Record*>(file + kRecordsAt)),
      stacks_(reinterpret_cast<Stack*>(file + kStacksAt)),
      stack_text_(file + kStacksAt + kStacks * sizeof(Stack)),
      stacks_from_(stacks_from) {
  std::memcpy(numbers_->magic, kMagic, sizeof kMagic);
  numbers_->records_at = kRecordsAt;
  numbers_->records = kRecords;
  numbers_->has_ticks = watch::ticks_are_steady() ? 1 : 0;
  const watch::TickPair begun = watch::tick_pair();
  numbers_->start_ticks = begun.ticks;
  numbers_->start_ns = static_cast<std::uint64_t>(begun.monotonic_ns);
  numbers_->process = static_cast<std::uint64_t>(getpid());
  numbers_->pid_namespace = pid_namespace();
  thread_number();  // of the thread that begins, which may forbid itself system calls
  if (stacks_from == kNoStacks) return;
  numbers_->stacks_at = kStacksAt;
  numbers_->stacks = kStacks;
  numbers_->stack_text_bytes = kStackTextBytes;
}

void Ring::add_behind(const Copy& copy, std::uint64_t start, std::uint64_t end) noexcept {
  add(copy, start, end);
}

void Ring::add_graph_launch() noexcept {
  reinterpret_cast<std::atomic<std::uint64_t>&>(numbers_->graph_launches)
      .fetch_add(1, std::memory_order_relaxed);
  if (outer_ != nullptr) outer_->add_graph_launch();
}

Counted* Ring::counted_by(std::uint32_t thread, std::uint8_t call) noexcept {
  auto* rows = reinterpret_cast<Counted*>(reinterpret_cast<char*>(numbers_) + kCountedAt);
  for (std::size_t i = 0; i < kCountedRows; ++i) {
    std::uint32_t there = 0;
    if (rows[i].thread.compare_exchange_strong(there, thread))
      rows[i].call.store(1U + call, std::memory_order_release);
    else if (there != thread || rows[i].call.load(std::memory_order_relaxed) != 1U + call)
      continue;
    return &rows[i];
  }
  return nullptr;
}

// A place is taken by its key alone: whoever finds the key there need not wait for the text.
std::uint32_t Ring::stack(std::string_view text) noexcept {
  const std::uint64_t key = hash_of(text);
  for (std::size_t probe = 0; probe < kMostProbes; ++probe) {
    const std::size_t number = (key + probe) % kStacks;
    std::uint64_t there = 0;
    if (stacks_[number].key.compare_exchange_strong(there, key)) {
      const std::uint64_t at = numbers_->stack_text_next.fetch_add(text.size());
      if (at + text.size() <= kStackTextBytes) write_stack(number, key, text, at);
    } else if (there != key) {
      continue;
    }
    return kFirstStack + static_cast<std::uint32_t>(number);
  }
  return kNoStackRoom;
}

// The rings of all watches of a process are made together, and have the same stacks.
void Ring::write_stack(std::size_t number, std::uint64_t key, std::string_view text,
                       std::size_t at) noexcept {
  std::memcpy(stack_text_ + at, text.data(), text.size());
  Stack& stack = stacks_[number];
  stack.key.store(key, std::memory_order_relaxed);
  stack.bytes.store(static_cast<std::uint32_t>(text.size()), std::memory_order_relaxed);
  stack.text.store(static_cast<std::uint32_t>(at + 1), std::memory_order_release);
  if (outer_ != nullptr) outer_->write_stack(number, key, text, at);
}

void Ring::add_stack_time(std::uint64_t ns) noexcept {
  numbers_->stack_ns.fetch_add(ns, std::memory_order_relaxed);
  if (outer_ != nullptr) outer_->add_stack_time(ns);
}

}  // namespace lanescope::calls
