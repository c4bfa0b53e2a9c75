#include "calls/own_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace lanescope::calls {

namespace {

constexpr std::size_t kMostPlaces = 16;  // of one call

std::size_t read_own(std::span<iovec> from, void* to, std::size_t bytes) noexcept {
  iovec whole{to, bytes};
  const ssize_t got = process_vm_readv(getpid(), &whole, 1, from.data(), from.size(), 0);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

iovec memory_at(std::uint64_t at, std::size_t bytes) noexcept {
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(at)), bytes};
}

}  // namespace

void OwnMemory::forget() noexcept {
  for (Part& part : parts_) part.number = 0;
}

const OwnMemory::Part* OwnMemory::part(std::uint64_t number) noexcept {
  Part& part = parts_[number % kRemembered];
  if (part.number == number + 1) return &part;
  iovec from = memory_at(number * kBytes, kBytes);
  const bool known = read_own({&from, 1}, part.bytes, kBytes) == kBytes;
  part.number = known ? number + 1 : 0;
  return known ? &part : nullptr;
}

bool OwnMemory::read(std::uint64_t at, void* to, std::size_t bytes) noexcept {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const Part* there = part(at / kBytes);
    if (there == nullptr) return false;
    const std::size_t size = std::min(bytes, kBytes - at % kBytes);
    std::memcpy(next, there->bytes + at % kBytes, size);
    next += size;
    at += size;
    bytes -= size;
  }
  return true;
}

std::size_t read_each(std::span<const std::uint64_t> places, void* to, std::size_t bytes) noexcept {
  std::size_t whole = 0;
  while (whole < places.size()) {
    std::array<iovec, kMostPlaces> from;
    const std::size_t count = std::min(kMostPlaces, places.size() - whole);
    for (std::size_t i = 0; i < count; ++i) from[i] = memory_at(places[whole + i], bytes);
    void* rest = static_cast<char*>(to) + whole * bytes;
    const std::size_t got = read_own({from.data(), count}, rest, count * bytes) / bytes;
    whole += got;
    if (got < count) break;
  }
  return whole;
}

}  // namespace lanescope::calls
