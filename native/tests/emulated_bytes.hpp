// What programs that emulate a group share: bytes in, bytes out, and memory of just so many.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "emulated_group.hpp"

// After it:
#include "compress/format.hpp"

namespace lanescope::compress {

namespace {

/// Memory of just so many bytes, aligned to 16; with a copy of others, if there are.
struct Exact {
  explicit Exact(std::size_t bytes, const std::byte* from = nullptr)
      : size(bytes), data(static_cast<std::byte*>(std::aligned_alloc(16, padded(bytes)))) {
    std::memset(data, 0xA5, padded(bytes));
    if (from != nullptr && bytes > 0) std::memcpy(data, from, bytes);
  }
  ~Exact() { std::free(data); }
  Exact(const Exact&) = delete;
  std::size_t size;
  std::byte* data;
};

std::vector<std::byte> read_all() {
  std::vector<std::byte> all;
  for (std::size_t read = 1 << 16, used = 0; read > 0; used += read) {
    all.resize(used + (1 << 16));
    read = std::fread(all.data() + used, 1, 1 << 16, stdin);
    all.resize(used + read);
  }
  return all;
}

void write_all(const void* data, std::size_t bytes) {
  if (std::fwrite(data, 1, bytes, stdout) != bytes) emulated::fail("cannot write");
}

std::uint32_t block_bytes(std::size_t bytes, std::size_t block) {
  return static_cast<std::uint32_t>(std::min(kBlockBytes, bytes - block * kBlockBytes));
}

}  // namespace

}  // namespace lanescope::compress
