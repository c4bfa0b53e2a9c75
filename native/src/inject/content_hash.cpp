#include "inject/content_hash.hpp"

#include <bit>
#include <cstring>

namespace lanescope::inject {

namespace {

constexpr std::uint64_t kOdd = 0xD6E8FEB86659FD93ULL;

/// One to one both in the state and in the word, so that no single change gets lost.
std::uint64_t stepped(std::uint64_t state, std::uint64_t word) noexcept {
  return (std::rotl(state, 29) ^ word) * kOdd;
}

template <std::size_t kLanes>
void add_block(std::uint64_t (&lanes)[kLanes], const unsigned char* block) noexcept {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::uint64_t word;
    std::memcpy(&word, block + lane * sizeof word, sizeof word);
    lanes[lane] = stepped(lanes[lane], word);
  }
}

}  // namespace

ContentHash::ContentHash() noexcept {
  for (int lane = 0; lane < kLanes; ++lane)
    lanes_[lane] = kOdd * static_cast<std::uint64_t>(lane + 1);
}

void ContentHash::add(const void* bytes, std::size_t size) noexcept {
  const auto* at = static_cast<const unsigned char*>(bytes);
  std::uint64_t lanes[kLanes];  // which nothing else points to
  std::memcpy(lanes, lanes_, sizeof lanes);
  std::size_t left = size;
  for (; left >= kBlock; left -= kBlock, at += kBlock) add_block(lanes, at);
  if (left > 0) {
    unsigned char last[kBlock] = {};
    std::memcpy(last, at, left);
    add_block(lanes, last);
  }
  std::memcpy(lanes_, lanes, sizeof lanes);
  size_ += size;
}

std::uint64_t ContentHash::value() const noexcept {
  std::uint64_t state = size_ * kOdd;
  for (const std::uint64_t lane : lanes_) {
    state = stepped(state, lane ^ lane >> 32);
    state ^= state >> 29;
  }
  return state;
}

std::uint64_t content_hash(const void* bytes, std::size_t size) noexcept {
  ContentHash hash;
  hash.add(bytes, size);
  return hash.value();
}

}  // namespace lanescope::inject
