#include "inject/content_hash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lanescope::inject {

namespace {

constexpr std::uint64_t kOdd = 0xD6E8FEB86659FD93ULL;

/// One to one both in the state and in the word, so that no single change gets lost.
std::uint64_t stepped(std::uint64_t state, std::uint64_t word) noexcept {
  return (std::rotl(state, 29) ^ word) * kOdd;
}

constexpr std::size_t kBlock = 64;
// Eight chains that do not wait for each other: a multiplication takes three cycles or more, and
// one can begin in each.
constexpr std::size_t kLanes = kBlock / sizeof(std::uint64_t);

void add_block(std::uint64_t (&lanes)[kLanes], const unsigned char* block) noexcept {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::uint64_t word;
    std::memcpy(&word, block + lane * sizeof word, sizeof word);
    lanes[lane] = stepped(lanes[lane], word);
  }
}

/// @return the number of a part.
std::uint64_t part_hash(const unsigned char* bytes, std::size_t size) noexcept {
  std::uint64_t lanes[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = kOdd * (lane + 1);
  std::size_t left = size;
  for (; left >= kBlock; left -= kBlock, bytes += kBlock) add_block(lanes, bytes);
  if (left > 0) {
    unsigned char last[kBlock] = {};
    std::memcpy(last, bytes, left);
    add_block(lanes, last);
  }
  std::uint64_t state = size * kOdd;
  for (const std::uint64_t lane : lanes) {
    state = stepped(state, lane ^ lane >> 32);
    state ^= state >> 29;
  }
  return state;
}

/// @return whether all words of a part are the same.
bool is_uniform(const unsigned char* bytes, std::size_t size) noexcept {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  return size <= kWord || std::memcmp(bytes, bytes + kWord, size - kWord) == 0;
}

}  // namespace

void ContentHash::add(const void* bytes, std::size_t size) noexcept {
  const auto* at = static_cast<const unsigned char*>(bytes);
  size_ += size;
  for (std::size_t left = size, part = 0; left > 0; left -= part, at += part) {
    part = std::min(left, kPartBytes);
    // Few parts are: to go back to the begin of each would hold up what brings bytes near ahead.
    const bool begins_uniform = parts_ != nullptr && is_uniform(at, std::min(part, kBlock));
    const std::uint64_t number = part_hash(at, part);
    state_ = stepped(state_, number);
    if (parts_ == nullptr) continue;
    const bool uniform = begins_uniform && is_uniform(at, part);
    *parts_++ = (number & ~std::uint64_t{1}) | static_cast<std::uint64_t>(uniform);
  }
}

std::uint64_t ContentHash::value() const noexcept {
  const std::uint64_t state = stepped(size_ * kOdd, state_ ^ state_ >> 32);
  return state ^ state >> 29;
}

std::uint64_t content_hash(const void* bytes, std::size_t size) noexcept {
  ContentHash hash;
  hash.add(bytes, size);
  return hash.value();
}

}  // namespace lanescope::inject
