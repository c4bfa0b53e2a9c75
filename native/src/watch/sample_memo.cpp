#include "lanescope/watch/sample_memo.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace lanescope::watch {

namespace {

// A link in use both ways has some ten thousand different samples of 10 us.
constexpr std::size_t kMostEntries = 1 << 15, kMostMemory = 4 << 20;
constexpr std::uint64_t kCheckedEach = 64;
constexpr std::uint64_t kTrialAnswers = 1000, kTrialValues = 8;

}  // namespace

SampleMemo::SampleMemo(std::size_t bytes, std::size_t values)
    : size_(bytes),
      words_((bytes + 7) / 8),
      values_(values),
      usable_(bytes > 0 && bytes <= kMostBytes && values > 0 && values <= kMostValues) {
  if (!usable_) return;
  mask_.assign(words_, ~std::uint64_t{0});
  raw_.resize(words_);
  bytes_.resize(words_);
  entries_.resize(std::bit_floor(std::min(kMostEntries, kMostMemory / (8 * words_))));
  remembered_.resize(entries_.size() * words_);
}

const double* SampleMemo::find(const std::uint8_t* sample) {
  if (!usable_) return nullptr;
  std::memcpy(raw_.data(), sample, size_);  // behind it are zeros, always
  for (std::size_t i = 0; i < words_; ++i) bytes_[i] = raw_[i] & mask_[i];
  const std::size_t at = place();
  if (!holds(at)) return nullptr;
  // Of each one for itself: samples that take turns would keep each other from being checked.
  return on_trial() || ++entries_[at].hits % kCheckedEach == 0 ? nullptr
                                                               : entries_[at].values.data();
}

bool SampleMemo::on_trial() const noexcept {
  return confirmed_ < kTrialAnswers || different_ < kTrialValues;
}

void SampleMemo::learn(std::span<const double> values) {
  if (!usable_) return;
  const std::size_t at = place();
  Entry& entry = entries_[at];
  const bool known = holds(at);
  if (known && !std::equal(values.begin(), values.end(), entry.values.begin())) {
    ++contradictions_;
    usable_ = false;
    return;
  }
  confirmed_ += known;
  if (known) return;
  ++different_;
  entry.epoch = epoch_;
  entry.hits = 0;
  std::copy(bytes_.begin(), bytes_.end(),
            remembered_.begin() + static_cast<std::ptrdiff_t>(at * words_));
  std::copy_n(values.begin(), values_, entry.values.begin());
  if (std::all_of(values.begin(), values.end(), [](double value) { return value == 0; }))
    learn_zeros();
}

void SampleMemo::forget() {
  has_zeros_ = false;
  std::fill(mask_.begin(), mask_.end(), ~std::uint64_t{0});
  ++epoch_;
}

std::size_t SampleMemo::place() const noexcept {
  std::uint64_t hash = 0x9E3779B97F4A7C15;
  for (const std::uint64_t word : bytes_) {
    hash = (hash ^ word) * 0xD6E8FEB86659FD93;
    hash ^= hash >> 32;
  }
  return hash & (entries_.size() - 1);
}

bool SampleMemo::holds(std::size_t place) const noexcept {
  return entries_[place].epoch == epoch_ &&
         std::equal(bytes_.begin(), bytes_.end(),
                    remembered_.begin() + static_cast<std::ptrdiff_t>(place * words_));
}

void SampleMemo::learn_zeros() {
  if (!has_zeros_) {
    zeros_ = raw_;
    has_zeros_ = true;
    return;
  }
  bool more = false;
  for (std::size_t byte = 0; byte < size_; ++byte) {
    const std::uint64_t whole = std::uint64_t{0xFF} << (byte % 8 * 8);
    if (((raw_[byte / 8] ^ zeros_[byte / 8]) & mask_[byte / 8] & whole) == 0) continue;
    mask_[byte / 8] &= ~whole;
    more = true;
  }
  if (more) ++epoch_;  // what was remembered was told apart by bytes that do not matter
}

}  // namespace lanescope::watch
