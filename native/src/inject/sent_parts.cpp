#include "inject/sent_parts.hpp"

#include <algorithm>
#include <new>

#include "inject/content_hash.hpp"

namespace lanescope::inject {

namespace {

// Of less nothing is gained.
constexpr std::uint64_t kLeastBytes = 64 << 10;
// 64 MiB of numbers, of 32 GiB that were sent: then all are forgotten, and known anew.
constexpr std::size_t kMostHeld = 8 << 20;
// What the maps take for an entry besides is less than so many numbers do.
constexpr std::size_t kEntry = 32;

/// @return how many of `bytes` lie in parts with the same number at the same place in both. Parts
/// of the same one word each time, such as zeros, may be so by chance: of them as large a share
/// counts as of the others.
std::uint64_t bytes_in_same(const std::vector<std::uint64_t>& one,
                            const std::vector<std::uint64_t>& other, std::uint64_t bytes) noexcept {
  if (one.size() != other.size()) return 0;
  std::uint64_t same = 0, compared = 0;
  for (std::size_t part = 0; part < one.size(); ++part) {
    const bool equal = one[part] == other[part];
    if (equal && is_uniform_part(one[part])) continue;
    const auto size = std::min<std::uint64_t>(kPartBytes, bytes - part * kPartBytes);
    compared += size;
    if (equal) same += size;
  }
  if (same == compared) return compared == 0 ? 0 : bytes;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * static_cast<double>(same) /
                                    static_cast<double>(compared));
}

}  // namespace

std::uint64_t SentParts::hash(HostCopy& copy) noexcept {
  const auto* bytes = reinterpret_cast<const void*>(copy.source);
  if (copy.bytes < kLeastBytes || copy.bytes / kPartBytes >= kMostHeld)
    return content_hash(bytes, copy.bytes);
  try {
    const auto parts =
        std::make_shared<std::vector<std::uint64_t>>((copy.bytes + kPartBytes - 1) / kPartBytes);
    ContentHash hash(parts->data());
    hash.add(bytes, copy.bytes);
    copy.same_bytes = same_bytes(copy, parts);
    return hash.value();
  } catch (const std::bad_alloc&) {
    return content_hash(bytes, copy.bytes);
  }
}

std::uint64_t SentParts::same_bytes(const HostCopy& copy, const Parts& parts) {
  const std::lock_guard lock(mutex_);
  std::uint64_t same = 0;
  for (const auto& [known, key] : {std::pair{&at_, copy.destination}, {&of_, copy.bytes}})
    if (const auto found = known->find(key); found != known->end())
      same = std::max(same, bytes_in_same(*parts, *found->second, copy.bytes));
  const std::size_t more = parts->size() + kEntry;
  held_ += more;
  if (held_ > kMostHeld) {
    at_.clear();
    of_.clear();
    held_ = more;
  }
  at_[copy.destination] = parts;
  of_[copy.bytes] = parts;
  return same;
}

}  // namespace lanescope::inject
