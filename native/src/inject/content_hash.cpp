#include "inject/content_hash.hpp"

#include <bit>
#include <cstring>

namespace lanescope::inject {

namespace {

// Eight chains that do not wait for each other: a multiplication takes three cycles or more, and
// one can begin in each.
constexpr int kLanes = 8;
constexpr std::size_t kBlock = kLanes * sizeof(std::uint64_t);
constexpr std::uint64_t kOdd = 0xD6E8FEB86659FD93ULL;

/// One to one both in the state and in the word, so that no single change gets lost.
std::uint64_t stepped(std::uint64_t state, std::uint64_t word) noexcept {
  return (std::rotl(state, 29) ^ word) * kOdd;
}

void add_block(std::uint64_t (&lanes)[kLanes], const unsigned char* block) noexcept {
  for (int lane = 0; lane < kLanes; ++lane) {
    std::uint64_t word;
    std::memcpy(&word, block + lane * sizeof word, sizeof word);
    lanes[lane] = stepped(lanes[lane], word);
  }
}

}  // namespace

std::uint64_t content_hash(const void* bytes, std::size_t size) noexcept {
  const auto* at = static_cast<const unsigned char*>(bytes);
  std::uint64_t lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane)
    lanes[lane] = kOdd * static_cast<std::uint64_t>(lane + 1);
  std::size_t left = size;
  for (; left >= kBlock; left -= kBlock, at += kBlock) add_block(lanes, at);
  if (left > 0) {
    unsigned char last[kBlock] = {};
    std::memcpy(last, at, left);
    add_block(lanes, last);
  }
  std::uint64_t state = size * kOdd;
  for (const std::uint64_t lane : lanes) {
    state = stepped(state, lane ^ lane >> 32);
    state ^= state >> 29;
  }
  return state;
}

}  // namespace lanescope::inject
