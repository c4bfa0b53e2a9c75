// The rule that decides, transfer by transfer, whether compressing pays (docs/compression-rule.md).
// It predicts both times and compresses where that takes at most `kMargin` of the time. What it
// predicts from is observed: the link by transfers as they are, what arrays become by a codec from
// what crossed the link, and the codec's speed from the time that this does not explain, of which
// the middle of the newest few counts. What costs time to find out has a budget: `kShare` of the
// time of all transfers of a type on a path, and `kOfGain` of what compressing has gained. It looks
// at no clock: the same outcomes lead to the same decisions.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <tuple>
#include <utility>

#include "compress/candidates.hpp"
#include "lanescope/compression.hpp"
#include "library/recent.hpp"
#include "library/rule_evidence.hpp"

namespace lanescope::compression {

namespace {

using compress::codecs_of;
using compress::codecs_to_look_for;
using compress::needs_look;
using compress::takes;

constexpr double kShare = 0.005, kOfGain = 0.1, kDoubtShare = 0.02;
constexpr double kFreeTrials = 2;       // in times of the transfer at hand
constexpr int kSeldom = 4 * kEvery;     // decisions until what is well is doubted
constexpr int kUnknownTagPatience = 3;  // decisions between trials of tags that are not known
constexpr int kUnlikeInRow = 3;         // times that are not what was expected, for the same reason
constexpr double kLeastSlowness = 0.5, kMostSlowness = 100;
constexpr double kSpeedWeight = 2;                    // of all tags' speed, in outcomes of one tag
constexpr double kLookSeconds = 100e-6;               // that copying a few blocks holds things up
constexpr std::size_t kLeastLookedAt = 1 << 20;       // bytes
constexpr double kSurprise = 0.1, kClearGain = 0.05;  // of the share of the wire
constexpr std::size_t kMostTags = 1024, kMostPools = 256;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::string text(const char* format, double value) {
  char said[40];
  std::snprintf(said, sizeof said, format, value);
  return said;
}

std::string time_text(double seconds) {
  return seconds < 1e-3 ? text("%.3g µs", seconds * 1e6) : text("%.3g ms", seconds * 1e3);
}

std::string name_of(Codec codec) {
  return entry_of(codec).name;
}

std::string name_of(Dtype dtype) {
  if (!is_known(dtype)) return "such values";
  return dtype == Dtype::bytes ? "uint8" : entry_of(dtype).name;
}

Decision not_compressed(std::string reason, std::optional<double> raw = {},
                        std::optional<double> compressed = {}) {
  return {false, Codec::raw, 1, std::move(reason), raw, compressed};
}

using Pool = PoolEvidence;
using Tag = TagEvidence;

/// One transfer, with what is known of it.
struct Case {
  const Transfer& transfer;
  Pool& pool;
  Tag& tag;
  LinkCost link;
  double raw_seconds;

  double bytes() const { return static_cast<double>(transfer.bytes); }
  int size() const { return size_class(transfer.bytes); }
  bool affords(double cost) const {
    const double budget =
        kShare * pool.spent_seconds + kOfGain * pool.gained_seconds + kFreeTrials * raw_seconds;
    return pool.lost_seconds + std::max(cost, 0.0) <= budget;
  }
  bool gains(double seconds) const { return seconds < kMargin * raw_seconds; }
};

/// What a codec would do to an array.
struct Option {
  Codec codec;
  int dimensionality = 1;
  std::optional<double> share{};      // of the wire
  bool tried = false;                 // its speed is known
  const char* of = "arrays like it";  // what is known to have become so much smaller
  double seconds = 0;                 // at best, as far as it is not known

  double ratio() const { return share ? 1 / *share : kInfinite; }
};

}  // namespace

struct Rule::State {
  State(const CodecCost& cost, std::optional<Codec> codec) : at_best(cost), only(codec) {}

  Decision decide(const Transfer& transfer);
  bool wants_sample(const Transfer& transfer);
  void take_sample(const Transfer& transfer, std::span<const Sampled> sampled);
  void learn_raw(const Transfer& transfer, const Decision& decision, const Outcome& outcome);
  void learn_compressed(const Transfer& transfer, const Decision& decision, const Outcome& outcome);

  std::vector<Codec> codecs_for(Dtype dtype) const;
  bool too_small(const Transfer& transfer, double expected, const LinkCost& link) const;
  std::vector<Option> options_of(const Case& one) const;
  Option option_of(const Case& one, Codec codec) const;
  double slowness_of_others(const Case& one) const;
  double slowness(const Case& one, Codec codec) const;
  double middle(const Case& one, const SpeedOf& speed) const;
  double seconds(const Case& one, double ratio, double times) const;
  std::optional<Decision> first_trial(const Case& one, const std::vector<Option>& options,
                                      const Option* best);
  std::optional<Decision> again(const Case& one, const std::vector<Option>& options,
                                const Option& best);
  std::optional<Decision> another(const Case& one, const std::vector<Option>& options,
                                  const Option& best);
  Decision weigh(const Case& one, const std::vector<Option>& options, const Option& best);
  void take_share(const Case& one, const Decision& decision, double share, bool found_again);
  void take_time(const Case& one, Codec codec, const Outcome& outcome, bool found_again);

  Pool& pool_of(const Transfer& transfer) { return pools.use({transfer.dtype, transfer.path}); }
  Tag& tag_of(const Transfer& transfer) {
    return tags.use({transfer.tag, transfer.dtype, transfer.path});
  }

  CodecCost at_best;
  std::optional<Codec> only;
  std::mutex mutex;
  RawTimes raw;
  Recent<std::pair<Dtype, std::string>, Pool> pools{kMostPools};
  Recent<std::tuple<std::string, Dtype, std::string>, Tag> tags{kMostTags};
};

std::vector<Codec> Rule::State::codecs_for(Dtype dtype) const {
  if (!only) return codecs_of(dtype);
  return takes(*only, dtype) ? std::vector{*only} : std::vector<Codec>{};
}

// ---- What is predicted

double Rule::State::seconds(const Case& one, double ratio, double times) const {
  return compressed_seconds(one.bytes(), ratio, slower(at_best, times), one.link);
}

/// How many times as slow as at best a codec was, by the link as it is known now.
double Rule::State::middle(const Case& one, const SpeedOf& speed) const {
  const auto times = [&](const TimedOutcome& of) {
    return std::clamp(
        slowness_of(of.bytes, of.bytes / of.wire_bytes, at_best, one.link, of.seconds),
        kLeastSlowness, kMostSlowness);
  };
  return times(speed.outcomes.middle(times));
}

/// What is expected of a codec whose speed is not known: half as far from the best, in factors, as
/// the fastest one is that was tried.
double Rule::State::slowness_of_others(const Case& one) const {
  double least = kInfinite;
  for (const SpeedOf& speed : one.pool.speeds) least = std::min(least, middle(one, speed));
  return std::isinf(least) ? 1 : std::sqrt(std::max(least, 1.0));
}

double Rule::State::slowness(const Case& one, Codec codec) const {
  const SpeedOf* of_all = one.pool.nearest_speed(codec, one.size());
  if (of_all == nullptr) return slowness_of_others(one);
  const double all = middle(one, *of_all);
  const SpeedOf* of_tag = one.tag.speed_of(codec, one.size());
  if (of_tag == nullptr) return all;
  const auto count = static_cast<double>(of_tag->outcomes.count());
  return (kSpeedWeight * all + count * middle(one, *of_tag)) / (kSpeedWeight + count);
}

Option Rule::State::option_of(const Case& one, Codec codec) const {
  Option option{codec};
  const ShareOf* of_all = one.pool.share_of(codec);
  const ShareOf* of_tag = one.tag.share_of(codec);
  // where tags differ, others say nothing of a tag that is known; blocks would
  if (!one.pool.sampled && one.pool.tags_differ() && !one.tag.shares.empty()) of_all = nullptr;
  if (of_tag != nullptr) {
    const double weight = of_all == nullptr || of_tag->anew ? 0 : one.pool.weight();
    const double all = of_all == nullptr ? 0 : of_all->share;
    option.share = (weight * all + of_tag->count * of_tag->share) / (weight + of_tag->count);
    option.dimensionality = of_tag->dimensionality;
    option.of = of_tag->looked ? "blocks of such arrays" : "it";
  } else if (of_all != nullptr) {
    option.share = of_all->share;
    option.dimensionality = of_all->dimensionality;
    if (of_all->looked) option.of = "blocks of such arrays";
  }
  option.tried = option.share && one.pool.nearest_speed(codec, one.size()) != nullptr;
  option.seconds = seconds(one, option.ratio(), slowness(one, codec));
  return option;
}

/// Of the codecs that suit the type, and of others that somebody else chose.
std::vector<Option> Rule::State::options_of(const Case& one) const {
  auto codecs = codecs_for(one.transfer.dtype);
  for (const ShareOf& of : one.pool.shares)
    if (std::find(codecs.begin(), codecs.end(), of.codec) == codecs.end())
      codecs.push_back(of.codec);
  std::vector<Option> options;
  for (const Codec codec : codecs) options.push_back(option_of(one, codec));
  return options;
}

bool Rule::State::too_small(const Transfer& transfer, double expected, const LinkCost& link) const {
  const auto bytes = static_cast<double>(transfer.bytes);
  return compressed_seconds(bytes, kInfinite, at_best, link) >= kMargin * expected;
}

// ---- What is decided

namespace {

const Option* fastest(const std::vector<Option>& options, bool tried) {
  const Option* best = nullptr;
  for (const Option& one : options)
    if (one.tried == tried && (one.share || !tried) &&
        (best == nullptr || one.seconds < best->seconds))
      best = &one;
  return best;
}

std::string gain_text(const Option& by) {
  return name_of(by.codec) + " makes " + by.of + " " + text("%.2f", by.ratio()) + " times as small";
}

Decision compressed(const Case& one, const Option& with, std::string reason) {
  std::optional<double> predicted;
  if (with.share && with.tried) {
    predicted = with.seconds;
    reason +=
        ": " + time_text(*predicted) + " instead of " + time_text(one.raw_seconds) + " predicted";
  }
  return {true, with.codec, with.dimensionality, std::move(reason), one.raw_seconds, predicted};
}

Decision raw_because(const Case& one, const Option& best, const std::string& reason) {
  return not_compressed(reason + "; predicted are " + time_text(best.seconds) + " compressed, " +
                            time_text(one.raw_seconds) + " not",
                        one.raw_seconds, best.seconds);
}

}  // namespace

Decision Rule::State::decide(const Transfer& transfer) {
  if (codecs_for(transfer.dtype).empty())
    return not_compressed("no codec takes " + name_of(transfer.dtype));
  const auto expected = raw.seconds(transfer.path, transfer.bytes);
  const auto link = raw.link(transfer.path, transfer.bytes);
  if (!expected || !link)
    return not_compressed("nothing is known of such transfers over this link yet");
  if (too_small(transfer, *expected, *link)) {
    const auto bytes = static_cast<double>(transfer.bytes);
    return not_compressed("too small for this link: compressing alone takes " +
                              time_text(compressed_seconds(bytes, kInfinite, at_best, *link)) +
                              ", as it is " + time_text(*expected),
                          expected);
  }
  const Case one{transfer, pool_of(transfer), tag_of(transfer), *link, *expected};
  ++one.pool.decisions;
  ++one.tag.decisions;
  const auto options = options_of(one);
  const Option* best = fastest(options, true);
  if (auto trial = first_trial(one, options, best)) return *std::move(trial);
  if (best == nullptr) best = fastest(options, false);
  if (!one.gains(best->seconds))
    if (auto trial = again(one, options, *best)) return *std::move(trial);
  return weigh(one, options, *best);
}

/// Tries a codec whose speed is not known, if it may be faster than those that are known.
std::optional<Decision> Rule::State::first_trial(const Case& one,
                                                 const std::vector<Option>& options,
                                                 const Option* best) {
  Pool& pool = one.pool;
  if (pool.settled && best != nullptr) return {};
  if (pool.shares.empty() && pool.looks())
    return not_compressed("some of its blocks are looked at first", one.raw_seconds);
  const Option* untried = fastest(options, false);
  const double against =
      best == nullptr ? one.raw_seconds : std::min(best->seconds, one.raw_seconds);
  if (untried == nullptr || untried->seconds >= kMargin * against) return {};
  if (pool.waiting()) {
    if (best != nullptr) return {};  // meanwhile the best of those that are known
    return not_compressed("the outcome of a trial is awaited", one.raw_seconds);
  }
  if (!one.affords(seconds(one, untried->share ? untried->ratio() : 1, 1) - one.raw_seconds)) {
    if (best != nullptr) return {};
    return not_compressed("a trial has to wait: those before took too long", one.raw_seconds);
  }
  pool.begin_trial(untried->codec);
  if (!untried->share) return compressed(one, *untried, "nothing is known of it yet, a trial");
  return compressed(one, *untried, gain_text(*untried) + ", a trial");
}

/// Tries a codec again that gained nothing, where that is due.
std::optional<Decision> Rule::State::again(const Case& one, const std::vector<Option>& options,
                                           const Option& best) {
  Pool& pool = one.pool;
  const bool by_speed = one.gains(seconds(one, best.ratio(), 1));
  const Option& with = by_speed ? best : options[(pool.turn + 1) % options.size()];
  double cost = with.seconds - one.raw_seconds;
  // where blocks are looked at, they tell that arrays have changed; what costs much is tried the
  // more seldom
  int least = !by_speed && pool.sampled ? kEvery : std::max(kFirstPatience, pool.trial_patience);
  // of what trials may cost some is left
  if (!by_speed && one.tag.shares.empty() && !pool.sampled && one.affords(cost + one.raw_seconds))
    least = kUnknownTagPatience;
  least |= 1;  // or of two tags in turns the same one would be tried each time
  // where it gained before, two stalls in a row may have looked like a change: the first trial is
  // likely to cost less
  const bool may_be_wrong = by_speed && pool.trial_patience == 0 && pool.gained_seconds > 0;
  if (may_be_wrong) cost = std::min(cost, one.raw_seconds / 2);
  const double patience = std::max(static_cast<double>(least), 10 * cost / one.raw_seconds);
  if (pool.waiting() || pool.decisions - pool.last_trial < patience || !one.affords(cost))
    return {};
  pool.trial_patience = std::clamp(2 * pool.trial_patience, kFirstPatience, kEvery);
  pool.begin_trial(with.codec);
  return compressed(one, with,
                    by_speed ? "it was a loss the last times, a trial"
                             : "it has not been tried for long, a trial");
}

/// Tries another codec than the best one that is known, seldom, where blocks do not tell.
std::optional<Decision> Rule::State::another(const Case& one, const std::vector<Option>& options,
                                             const Option& best) {
  Pool& pool = one.pool;
  if (pool.sampled || pool.settled || pool.waiting() ||
      pool.decisions - pool.last_trial < (kSeldom | 1))
    return {};
  const Option& with = options[(pool.turn + 1) % options.size()];
  if (with.codec == best.codec) {
    ++pool.turn;
    return {};
  }
  if (!one.affords(with.seconds - best.seconds)) return {};
  pool.begin_trial(with.codec);
  return compressed(one, with, "it has not been tried for long, a trial");
}

/// Compares what the best codec leads to with the raw time.
Decision Rule::State::weigh(const Case& one, const std::vector<Option>& options,
                            const Option& best) {
  Pool& pool = one.pool;
  if (one.gains(best.seconds) && best.tried) {
    const double gain = one.raw_seconds - best.seconds;
    const double since = pool.spent_seconds - pool.spent_at_raw;
    const bool doubted = pool.doubts > 0 && gain <= kDoubtShare * pool.spent_seconds;
    const bool due = pool.decisions - pool.last_raw >= pool.raw_patience && gain <= kShare * since;
    if (doubted || due) {
      if (!doubted) pool.raw_patience = std::min(2 * pool.raw_patience, kSeldom);
      pool.last_raw = pool.decisions;
      pool.spent_at_raw = pool.spent_seconds;
      if (doubted) --pool.doubts;
      return raw_because(one, best,
                         doubted ? "sent as it is to time that again, as times have changed"
                                 : "sent as it is to time that again");
    }
    if (auto trial = another(one, options, best)) return *std::move(trial);
    return compressed(one, best, gain_text(best));
  }
  if (one.gains(seconds(one, best.ratio(), 1)))
    return raw_because(one, best, "compressed it took longer the last times");
  return raw_because(one, best,
                     best.ratio() <= 1.005 ? "no codec makes it smaller"
                                           : name_of(best.codec) + " saves too little (ratio " +
                                                 text("%.2f", best.ratio()) + ")");
}

// ---- What is looked at

namespace {

ShareOf& set_looked(Evidence& evidence, const Sampled& sampled, double share) {
  ShareOf& of = evidence.set_share(sampled.codec, sampled.dimensionality, share);
  of.looked = true;
  return of;
}

}  // namespace

bool Rule::State::wants_sample(const Transfer& transfer) {
  if (transfer.bytes < kLeastLookedAt || codecs_for(transfer.dtype).empty()) return false;
  Pool& pool = pool_of(transfer);
  if (pool.settled || pool.looks()) return false;
  const auto expected = raw.seconds(transfer.path, transfer.bytes);
  const auto link = raw.link(transfer.path, transfer.bytes);
  if (expected && link && too_small(transfer, *expected, *link)) return false;
  Tag& tag = tag_of(transfer);
  bool wants = pool.shares.empty();
  if (!wants && expected && link) {
    const Case one{transfer, pool, tag, *link, *expected};
    if (!one.affords(kLookSeconds)) return false;
    const auto options = options_of(one);
    const bool hopeless = std::none_of(options.begin(), options.end(), [&](const Option& option) {
      return one.gains(seconds(one, option.ratio(), 1));
    });
    const auto due = [hopeless](const LookTimes& looks, int decisions) {
      return hopeless ? looks.due(decisions) : looks.since(decisions) >= kSeldom;
    };
    const bool unlooked = tag.looks.never();
    wants = tag.shares.empty() ? pool.tags_differ() || due(pool.look_times, pool.decisions)
                               : (unlooked && (tag.surprised || tag.decisions >= kFirstPatience)) ||
                                     due(tag.looks, tag.decisions);
  }
  if (!wants) return false;
  tag.looks.take(tag.decisions);
  pool.look_times.take(pool.decisions);
  pool.looking = pool.decisions;
  pool.lost_seconds += kLookSeconds;
  return true;
}

void Rule::State::take_sample(const Transfer& transfer, std::span<const Sampled> sampled) {
  Pool& pool = pool_of(transfer);
  Tag& tag = tag_of(transfer);
  pool.looking.reset();
  const auto codecs = only ? codecs_for(transfer.dtype) : codecs_to_look_for(transfer.dtype);
  for (const Sampled& one : sampled) {
    if (std::find(codecs.begin(), codecs.end(), one.codec) == codecs.end()) continue;
    pool.sampled = true;
    const double share = std::max(one.wire_share, 1e-6);
    const bool suits = share < 1 - kClearGain || pool.share_of(one.codec) != nullptr;
    if (!suits && needs_look(one.codec)) continue;
    const ShareOf* known = tag.share_of(one.codec);
    // what has become smaller than it was begins anew: it would be off for long by the mean
    if (known == nullptr || share < known->share - kClearGain)
      set_looked(tag, one, share).anew = known != nullptr;
    if (ShareOf* of_all = pool.share_of(one.codec)) {
      pool.take_difference({}, share - of_all->share);
      of_all->take(share);
    } else {
      set_looked(pool, one, share);
    }
  }
}

// ---- What is learned

void Rule::State::learn_raw(const Transfer& transfer, const Decision& decision,
                            const Outcome& outcome) {
  Pool& pool = pool_of(transfer);
  if (raw.take(transfer.path, transfer.bytes, outcome.seconds)) pool.doubt();
  // there was no room for it: the trial is over, and tells nothing
  if (decision.compress && pool.pending == decision.codec) pool.pending.reset();
}

void Rule::State::learn_compressed(const Transfer& transfer, const Decision& decision,
                                   const Outcome& outcome) {
  Pool& pool = pool_of(transfer);
  const Codec codec = decision.codec.value_or(Codec::raw);
  const auto usual = codecs_to_look_for(transfer.dtype);
  // somebody else chose it, and would again
  if (!only && std::find(usual.begin(), usual.end(), codec) == usual.end()) pool.settled = true;
  const bool trial = pool.pending == codec || (pool.pending && pool.settled);
  if (trial) pool.pending.reset();
  const auto expected = raw.seconds(transfer.path, transfer.bytes);
  const auto link = raw.link(transfer.path, transfer.bytes);
  const auto size = static_cast<double>(transfer.bytes);
  const double share = static_cast<double>(std::max<std::size_t>(outcome.wire_bytes, 1)) / size;
  const bool first = pool.is_first(codec);
  if (!expected || !link) return;
  const double loss = outcome.seconds - *expected;
  const double likely = std::max(decision.compressed_seconds.value_or(*expected) - *expected, 0.0);
  // one that was held up by something else shall not forbid trials for ever
  if (trial && loss > 0) pool.lost_seconds += std::min(loss, likely + 2 * *expected);
  if (!trial)
    pool.gained_seconds =
        std::max(pool.gained_seconds + std::clamp(-loss, -*expected, *expected), 0.0);
  const Case one{transfer, pool, tag_of(transfer), *link, *expected};
  const bool found_again = trial && one.gains(outcome.seconds);
  if (found_again) pool.trial_patience = 0;
  // kernels had to be loaded, memory to be taken: its time tells nothing
  if (!first || loss <= 0) take_time(one, codec, outcome, found_again);
  take_share(one, decision, share, found_again);
}

void Rule::State::take_share(const Case& one, const Decision& decision, double share,
                             bool found_again) {
  const Codec codec = decision.codec.value_or(Codec::raw);
  ShareOf *of_tag = one.tag.share_of(codec), *of_all = one.pool.share_of(codec);
  if (of_all != nullptr) {
    const bool surprising = std::abs(share - option_of(one, codec).share.value_or(1)) > kSurprise;
    one.tag.surprised = one.tag.surprised || surprising;
    one.pool.take_difference(of_tag == nullptr ? std::optional<double>() : share - of_tag->share,
                             share - of_all->share);
    of_all->take(share);
  } else {
    one.pool.set_share(codec, decision.dimensionality, share);
  }
  const bool anew = of_tag != nullptr && found_again && share < of_tag->share - kClearGain;
  if (of_tag == nullptr || anew)
    one.tag.set_share(codec, decision.dimensionality, share).anew = anew;
  else
    of_tag->take(share);
}

void Rule::State::take_time(const Case& one, Codec codec, const Outcome& outcome,
                            bool found_again) {
  const TimedOutcome timed{one.bytes(),
                           static_cast<double>(std::max<std::size_t>(outcome.wire_bytes, 1)),
                           outcome.seconds};
  // by what crossed the link: an array that no codec makes smaller is slow for a reason
  const double likely = seconds(one, timed.bytes / timed.wire_bytes, slowness(one, codec));
  for (Evidence* evidence : {static_cast<Evidence*>(&one.tag), static_cast<Evidence*>(&one.pool)}) {
    Newest<TimedOutcome>& outcomes = evidence->new_speed(codec, one.size()).outcomes;
    const double times = outcomes.count() == 0 ? 1 : outcome.seconds / likely;
    if (found_again && times < kMargin) {
      outcomes.begin_anew(timed);
      continue;
    }
    const bool changed = outcomes.take(timed, times);
    if (changed) {  // the next trial waits, as the first one does
      one.pool.last_trial = one.pool.decisions;
      one.pool.trial_patience = 0;
    }
    if (changed || std::abs(outcomes.unlike()) >= kUnlikeInRow) one.pool.doubt();
  }
}

Rule::Rule(std::size_t fill_bytes, std::optional<Codec> codec)
    : Rule(CodecCost{.slab_bytes = fill_bytes}, codec) {}
Rule::Rule(const CodecCost& at_best, std::optional<Codec> codec)
    : state_(std::make_unique<State>(at_best, codec)) {}
Rule::~Rule() = default;

void Rule::set_link(const std::string& path, const LinkCost& link) {
  const std::lock_guard lock(state_->mutex);
  state_->raw.set_link(path, link);
}

Decision Rule::decide(const Transfer& transfer) {
  const std::lock_guard lock(state_->mutex);
  return state_->decide(transfer);
}

bool Rule::wants_sample(const Transfer& transfer) {
  const std::lock_guard lock(state_->mutex);
  return state_->wants_sample(transfer);
}

void Rule::take_sample(const Transfer& transfer, std::span<const Sampled> sampled) {
  const std::lock_guard lock(state_->mutex);
  state_->take_sample(transfer, sampled);
}

void Rule::learn(const Transfer& transfer, const Decision& decision, const Outcome& outcome) {
  const std::lock_guard lock(state_->mutex);
  if (transfer.bytes == 0 || outcome.seconds <= 0) return;
  state_->pool_of(transfer).spent_seconds += outcome.seconds;
  if (outcome.compressed)
    state_->learn_compressed(transfer, decision, outcome);
  else
    state_->learn_raw(transfer, decision, outcome);
}

}  // namespace lanescope::compression
