/// What `new` takes in this library, from pages of its own.
///
/// The C library returns the end of its heap to the system when what lies there is freed. A block
/// of ours above a program's arrays would keep it from that: the program would then write to pages
/// that it has, where unwatched it waits for new ones in each round.

#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

namespace lanescope::inject {

namespace {

/// Before each block. As large as the alignment that `new` promises.
struct alignas(16) Head {
  std::size_t bytes;  // with the head
  bool mapped;        // on its own
};

struct FreeBlock {
  FreeBlock* next;
};

constexpr std::size_t kPage = 4096;
constexpr std::size_t kChunk = 1 << 20;
constexpr std::size_t kLeast = std::bit_ceil(sizeof(Head) + sizeof(FreeBlock));
constexpr std::size_t kMost = 128 << 10;  // of a block in a chunk
constexpr std::size_t kSizes = std::bit_width(kMost) - std::bit_width(kLeast) + 1;
/// A child of a fork may have copied the lock while another thread held it.
constexpr int kTries = 1 << 16, kTriesBeforeYield = 64;

void* pages(std::size_t bytes) noexcept {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

void* behind_head(void* at, std::size_t bytes, bool mapped) noexcept {
  return at == nullptr ? nullptr : new (at) Head{bytes, mapped} + 1;
}

class Heap {
 public:
  void* allocate(std::size_t bytes) noexcept {
    if (bytes > SIZE_MAX / 2) return nullptr;
    const std::size_t block =
        std::bit_ceil(bytes + sizeof(Head) < kLeast ? kLeast : bytes + sizeof(Head));
    if (block <= kMost && lock()) {
      void* at = take(block);
      unlock();
      return behind_head(at, block, false);
    }
    const std::size_t whole = (bytes + sizeof(Head) + kPage - 1) / kPage * kPage;
    return behind_head(pages(whole), whole, true);
  }

  void free(void* at) noexcept {
    if (at == nullptr) return;
    Head* head = static_cast<Head*>(at) - 1;
    if (head->mapped) {
      munmap(head, head->bytes);
    } else if (const std::size_t bytes = head->bytes; lock()) {
      FreeBlock*& first = list(bytes);
      first = new (head) FreeBlock{first};
      unlock();
    }
  }

 private:
  bool lock() noexcept {
    for (int tries = 0; tries < kTries; ++tries) {
      if (!locked_.test_and_set(std::memory_order_acquire)) return true;
      if (tries > kTriesBeforeYield) sched_yield();
    }
    return false;
  }

  void unlock() noexcept { locked_.clear(std::memory_order_release); }

  FreeBlock*& list(std::size_t block) noexcept {
    return lists_[std::bit_width(block) - std::bit_width(kLeast)];
  }

  void* take(std::size_t block) noexcept {
    if (FreeBlock*& first = list(block); first != nullptr) {
      FreeBlock* taken = first;
      first = taken->next;
      return taken;
    }
    if (left_ < block) {
      char* chunk = static_cast<char*>(pages(kChunk));
      if (chunk == nullptr) return nullptr;
      next_ = chunk;
      left_ = kChunk;
    }
    char* taken = next_;
    next_ += block;
    left_ -= block;
    return taken;
  }

  std::atomic_flag locked_;
  std::array<FreeBlock*, kSizes> lists_{};
  char* next_ = nullptr;
  std::size_t left_ = 0;
};

constinit Heap heap;  // never destroyed: threads of CUPTI call until the process is gone

void* allocated(std::size_t bytes) {
  void* at = heap.allocate(bytes);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

}  // namespace

}  // namespace lanescope::inject

using lanescope::inject::allocated;
using lanescope::inject::heap;

void* operator new(std::size_t bytes) {
  return allocated(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocated(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return heap.allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return heap.allocate(bytes);
}
void operator delete(void* at) noexcept {
  heap.free(at);
}
void operator delete[](void* at) noexcept {
  heap.free(at);
}
void operator delete(void* at, std::size_t) noexcept {
  heap.free(at);
}
void operator delete[](void* at, std::size_t) noexcept {
  heap.free(at);
}
void operator delete(void* at, const std::nothrow_t&) noexcept {
  heap.free(at);
}
void operator delete[](void* at, const std::nothrow_t&) noexcept {
  heap.free(at);
}
