#include "watch/sample_memo.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lanescope::watch {

namespace {

// Samples whose fingerprints end alike share a set. Of 20 million with two normally distributed
// counts, in phases or not, and with others that come only once, the entry that was found longest
// ago was nearly the best to give up: counting how often made most changes of phase costly.
constexpr std::size_t kSet = 4;
// An idle link has some hundred different samples of 10 us, one in use both ways many ten
// thousands.
constexpr std::size_t kFewestEntries = 1 << 10, kMostEntries = 1 << 18;
constexpr std::size_t kGrowth = 4;
constexpr std::uint16_t kCheckedEach = 64, kSureAfter = 4, kSureCheckedEach = 256;
// Since 1970, in all eight bytes; a time of few bytes could be a counter.
constexpr std::uint64_t kFewestNs = std::uint64_t{1} << 56;
constexpr std::uint64_t kTrialAnswers = 1000, kTrialValues = 8;

/// Spreads what differs over all bits; no two become the same.
constexpr std::uint64_t mixed(std::uint64_t word, std::uint64_t factor, int shift) noexcept {
  word *= factor;  // odd
  return word ^ (word >> shift);
}

std::uint8_t byte_of(const std::vector<std::uint64_t>& words, std::size_t byte) noexcept {
  return static_cast<std::uint8_t>(words[byte / 8] >> (byte % 8 * 8));
}

}  // namespace

SampleMemo::SampleMemo(std::size_t bytes, std::size_t values)
    : size_(bytes),
      words_((bytes + 7) / 8),
      values_(values),
      usable_(bytes > 0 && bytes <= kMostBytes && values > 0 && values <= kMostValues) {
  if (!usable_) return;
  mask_.assign(words_, ~std::uint64_t{0});
  raw_.resize(words_);
  entries_.resize(kFewestEntries);
}

const double* SampleMemo::find(const std::uint8_t* sample) {
  if (!usable_) return nullptr;
  fingerprint_ = fingerprint_of(sample);
  found_ = nullptr;
  ++now_;
  for (Entry& entry : set_of(fingerprint_)) {
    if (entry.until_check == 0 || entry.fingerprint != fingerprint_) continue;
    found_ = &entry;
    entry.last = now_;
    // Of each one for itself: samples that take turns would keep each other from being checked.
    if (!on_trial() && --entry.until_check > 0) return entry.values.data();
    break;
  }
  std::memcpy(raw_.data(), sample, size_);  // behind it are zeros, always
  return nullptr;
}

SampleMemo::Fingerprint SampleMemo::fingerprint_of(const std::uint8_t* sample) const noexcept {
  Fingerprint found{0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F};
  for (std::size_t i = 0; i < words_; ++i) {
    std::uint64_t word = 0;
    if (8 * i + 8 <= size_)
      std::memcpy(&word, sample + 8 * i, 8);
    else
      std::memcpy(&word, sample + 8 * i, size_ - 8 * i);
    word = mixed(word & mask_[i], 0xBF58476D1CE4E5B9, 31);
    found.first = mixed(found.first ^ word, 0xD6E8FEB86659FD93, 32);
    found.second = mixed(found.second + word, 0x94D049BB133111EB, 29);
  }
  return {mixed(found.first, 0xFF51AFD7ED558CCD, 33), mixed(found.second, 0xC4CEB9FE1A85EC53, 32)};
}

std::span<SampleMemo::Entry> SampleMemo::set_of(const Fingerprint& fingerprint) noexcept {
  const std::size_t sets = entries_.size() / kSet;  // a power of 2
  return std::span(entries_).subspan((fingerprint.first & (sets - 1)) * kSet, kSet);
}

SampleMemo::Entry& SampleMemo::place_in(std::span<Entry> set) noexcept {
  return *std::max_element(set.begin(), set.end(), [this](const Entry& one, const Entry& other) {
    if (one.until_check == 0 || other.until_check == 0) return one.until_check > other.until_check;
    return now_ - one.last < now_ - other.last;
  });
}

bool SampleMemo::on_trial() const noexcept {
  return confirmed_ < kTrialAnswers || different_ < kTrialValues;
}

void SampleMemo::learn(std::span<const double> values, std::span<const std::uint64_t> times) {
  if (!usable_) return;
  if (found_ != nullptr) return check(values);
  enter(values);
  if (std::all_of(values.begin(), values.end(), [](double value) { return value == 0; }))
    learn_zeros(times);
}

void SampleMemo::check(std::span<const double> values) {
  if (!std::equal(values.begin(), values.end(), found_->values.begin())) {
    ++contradictions_;
    usable_ = false;
    return;
  }
  if (on_trial())
    ++confirmed_;
  else if (found_->checks < kSureAfter)
    ++found_->checks;
  found_->until_check = found_->checks < kSureAfter ? kCheckedEach : kSureCheckedEach;
}

void SampleMemo::enter(std::span<const double> values) {
  Entry& entry = place_in(set_of(fingerprint_));
  // Those of a trial do not count: what does not matter may not be known yet, and no two alike.
  if (on_trial())
    ++different_;
  else
    pushed_out_ += entry.until_check > 0;
  entry = {.fingerprint = fingerprint_, .last = now_, .until_check = kCheckedEach};
  std::copy_n(values.begin(), values_, entry.values.begin());
  if (pushed_out_ > entries_.size() / 8 && entries_.size() < kMostEntries) grow();
}

void SampleMemo::grow() {
  const auto before = std::exchange(entries_, std::vector<Entry>(kGrowth * entries_.size()));
  for (const Entry& entry : before)
    if (entry.until_check > 0) place_in(set_of(entry.fingerprint)) = entry;
  pushed_out_ = 0;
}

void SampleMemo::forget() {
  has_zeros_ = false;
  std::fill(mask_.begin(), mask_.end(), ~std::uint64_t{0});
  clear();
}

void SampleMemo::clear() {
  std::fill(entries_.begin(), entries_.end(), Entry{});
  found_ = nullptr;
  pushed_out_ = 0;
}

void SampleMemo::learn_zeros(std::span<const std::uint64_t> times) {
  bool more = false;
  if (!has_zeros_) zeros_ = raw_;
  has_zeros_ = true;
  for (std::size_t byte = 0; byte < size_; ++byte)
    if (byte_of(raw_, byte) != byte_of(zeros_, byte)) more |= ignore(byte);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(raw_.data());
  for (std::size_t byte = 0; byte + 8 <= size_; ++byte) {
    std::uint64_t told = 0;
    std::memcpy(&told, bytes + byte, 8);
    if (told < kFewestNs || std::find(times.begin(), times.end(), told) == times.end()) continue;
    for (std::size_t i = 0; i < 8; ++i) more |= ignore(byte + i);
  }
  if (more) clear();  // what was remembered was told apart by bytes that do not matter
}

bool SampleMemo::ignore(std::size_t byte) {
  const std::uint64_t whole = std::uint64_t{0xFF} << (byte % 8 * 8);
  const bool mattered = (mask_[byte / 8] & whole) != 0;
  mask_[byte / 8] &= ~whole;
  return mattered;
}

}  // namespace lanescope::watch
