// The rule that decides, transfer by transfer, whether compressing pays (docs/compression-rule.md).
// It predicts both times and compresses where that takes at most `kMargin` of the time. What it
// predicts from is measured: the link by transfers as they are, ratio and speed of a codec by
// compressed ones. It turns itself off where a compressed transfer took longer than the same bytes
// as they are, and on again by trials only. Trials may cost `kShare` of the time that went into
// such transfers, but for the first one of each kind. It looks at no clock: the same outcomes lead
// to the same decisions.

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "compress/candidates.hpp"
#include "lanescope/compression.hpp"
#include "library/rule_costs.hpp"

namespace lanescope::compression {

namespace {

using compress::codecs_of;
using compress::takes;

constexpr double kShare = 0.005;   // of all time, that trials and mistakes may cost
constexpr int kFirstPatience = 8;  // fewer at first after a loss, which may be an accident
constexpr double kLeastSlowness = 0.5, kMostSlowness = 100;

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

Decision nothing_known() {
  return not_compressed("nothing is known of such transfers over this link yet");
}

/// What a codec does to arrays of a kind; means in which the newest counts half.
struct CodecKept {
  Codec codec;
  double wire_share;
  std::optional<double> slowness;  // times as slow as at best
  int dimensionality;

  double ratio() const { return 1 / wire_share; }
  void take(double share, std::optional<double> times, double weight) {
    wire_share += weight * (share - wire_share);
    if (!times) return;
    const double old = slowness.value_or(*times);
    // one that was held up shall not look slow for long
    const double believed = weight < 1 ? std::min(*times, 2 * old) : *times;
    slowness = old + weight * (believed - old);
  }
};

/// A codec that was measured to be a loss for some size class.
struct Off {
  double loss_seconds;
  int patience = kFirstPatience;
};

/// All of one tag, type and path.
struct Kept {
  std::vector<CodecKept> codecs;
  std::map<std::pair<int, Codec>, Off> off;
  int decisions = 0, last_trial = 0;
  std::optional<Codec> pending;  // of a trial whose outcome is awaited
  bool settled = false;
  std::size_t turn = 0;
  double spent_seconds = 0, lost_seconds = 0;

  CodecKept* find(Codec codec) {
    for (CodecKept& one : codecs)
      if (one.codec == codec) return &one;
    return nullptr;
  }
  bool waiting() const { return pending.has_value() && decisions - last_trial < kEvery; }
  bool may_try(double cost, int patience) const {
    if (waiting() || decisions - last_trial < patience) return false;
    return lost_seconds + std::max(cost, 0.0) <= kShare * spent_seconds;
  }
  void begin_trial(std::optional<Codec> codec) {
    last_trial = decisions;
    pending = codec;
    ++turn;
  }
  void end_trial(Codec codec) {
    // while nothing is known only trials compress, maybe by a codec that somebody else chose
    if (pending == codec || codecs.empty()) pending.reset();
  }
  void switch_codec(int size, Codec codec, double loss, bool clear_gain) {
    if (loss > 0) {
      const auto [found, is_new] = off.try_emplace({size, codec}, Off{loss});
      if (!is_new) found->second = {loss, std::min(2 * found->second.patience, kEvery)};
      last_trial = decisions;
    } else if (clear_gain) {
      off.erase({size, codec});
    }
  }
};

/// One transfer, with what is known of it.
struct Case {
  const Transfer& transfer;
  std::vector<Codec> codecs;
  Kept& kept;
  LinkCost link;
  double raw_seconds;
};

using CodecKey = std::tuple<Dtype, std::string, Codec>;

}  // namespace

struct Rule::State {
  State(const CodecCost& cost, std::optional<Codec> codec) : at_best(cost), only(codec) {}

  Decision decide(const Transfer& transfer);
  std::optional<Decision> first_trial(const Case& one);
  Decision weigh(const Case& one);
  void learn_compressed(const Transfer& transfer, const Decision& decision, const Outcome& outcome,
                        Kept& kept);
  double seconds(const Case& one, Codec codec, double ratio);
  Decision compressed(const Case& one, Codec codec, std::string reason);
  Kept& kept_of(const Transfer& transfer) {
    return kept[{transfer.tag, transfer.dtype, transfer.path}];
  }

  CodecCost at_best;
  std::optional<Codec> only;
  std::mutex mutex;
  RawTimes raw;
  std::map<std::tuple<std::string, Dtype, std::string>, Kept> kept;
  std::map<CodecKey, double> slowness;  // of arrays of whatever tag
  std::map<CodecKey, bool> warm;
};

double Rule::State::seconds(const Case& one, Codec codec, double ratio) {
  const CodecKept* known = one.kept.find(codec);
  double times = 1;
  if (known != nullptr && known->slowness) {
    times = *known->slowness;
  } else if (const auto found = slowness.find({one.transfer.dtype, one.transfer.path, codec});
             found != slowness.end()) {
    times = found->second;
  }
  return compressed_seconds(static_cast<double>(one.transfer.bytes), ratio, slower(at_best, times),
                            one.link);
}

Decision Rule::State::compressed(const Case& one, Codec codec, std::string reason) {
  const CodecKept* known = one.kept.find(codec);
  std::optional<double> predicted;
  if (known != nullptr) {
    predicted = seconds(one, codec, known->ratio());
    reason +=
        ": " + time_text(*predicted) + " instead of " + time_text(one.raw_seconds) + " predicted";
  }
  const int dimensionality = known == nullptr ? 1 : known->dimensionality;
  return {true, codec, dimensionality, std::move(reason), one.raw_seconds, predicted};
}

Decision Rule::State::decide(const Transfer& transfer) {
  auto codecs = only ? std::vector{*only} : codecs_of(transfer.dtype);
  if (codecs.empty() || !takes(codecs.front(), transfer.dtype))
    return not_compressed("no codec takes " + name_of(transfer.dtype));
  const auto expected = raw.seconds(transfer.path, transfer.bytes);
  const auto link = raw.link(transfer.path, transfer.bytes);
  if (!expected || !link) return nothing_known();
  const double ideal = compressed_seconds(static_cast<double>(transfer.bytes),
                                          std::numeric_limits<double>::infinity(), at_best, *link);
  if (ideal >= kMargin * *expected)
    return not_compressed("too small for this link: compressing alone takes " + time_text(ideal) +
                              ", as it is " + time_text(*expected),
                          expected);
  const Case one{transfer, std::move(codecs), kept_of(transfer), *link, *expected};
  ++one.kept.decisions;
  if (auto trial = first_trial(one)) return *std::move(trial);
  return weigh(one);
}

/// Tries each codec that nothing is known of; the first one whatever it costs.
std::optional<Decision> Rule::State::first_trial(const Case& one) {
  Kept& kept = one.kept;
  const auto untried = std::find_if(one.codecs.begin(), one.codecs.end(),
                                    [&](Codec codec) { return kept.find(codec) == nullptr; });
  if (kept.settled || untried == one.codecs.end()) return {};
  if (kept.waiting() && !kept.codecs.empty()) return {};  // the best of those that are known
  if (kept.waiting()) return not_compressed("the outcome of a trial is awaited", one.raw_seconds);
  const Codec codec = *untried;
  const double infinite = std::numeric_limits<double>::infinity();
  double loss = seconds(one, codec, 1) - one.raw_seconds;
  const bool first = kept.codecs.empty();
  // unless other arrays told that it is hopeless
  if (first && seconds(one, codec, infinite) < kMargin * one.raw_seconds) loss = -infinite;
  if (loss > -infinite && !kept.may_try(loss, first ? kEvery : 1)) {
    if (!first) return {};
    return not_compressed("other arrays told that " + name_of(codec) + " is too slow for this link",
                          one.raw_seconds);
  }
  kept.begin_trial(codec);
  return compressed(one, codec, "nothing is known of it yet, a trial");
}

/// Compares what codecs that are on lead to with the raw time; tries those that are due.
Decision Rule::State::weigh(const Case& one) {
  Kept& kept = one.kept;
  if (kept.codecs.empty()) return nothing_known();
  const auto predicted_of = [&](const CodecKept& of) { return seconds(one, of.codec, of.ratio()); };
  const auto raw_because = [&](const std::string& reason, double predicted) {
    return not_compressed(reason + "; predicted are " + time_text(predicted) + " compressed, " +
                              time_text(one.raw_seconds) + " not",
                          one.raw_seconds, predicted);
  };
  std::vector<std::pair<const CodecKept*, Off>> losses;
  const CodecKept* best = nullptr;
  for (const CodecKept& of : kept.codecs) {
    const auto off = kept.off.find({size_class(one.transfer.bytes), of.codec});
    if (off != kept.off.end())
      losses.emplace_back(&of, off->second);
    else if (best == nullptr || predicted_of(of) < predicted_of(*best))
      best = &of;
  }
  if (best != nullptr && predicted_of(*best) < kMargin * one.raw_seconds) {
    const double gain = one.raw_seconds - predicted_of(*best);
    if (kept.may_try(gain, kEvery)) {
      kept.begin_trial({});
      kept.lost_seconds += gain;
      return raw_because("sent as it is to time that again", predicted_of(*best));
    }
    return compressed(
        one, best->codec,
        name_of(best->codec) + " makes it " + text("%.2f", best->ratio()) + " times as small");
  }
  if (!losses.empty()) {
    const auto& [of, off] = losses[kept.turn % losses.size()];
    const double likely = predicted_of(*of) - one.raw_seconds;
    if (kept.may_try(std::min(off.loss_seconds, likely), off.patience)) {
      kept.begin_trial(of->codec);
      return compressed(one, of->codec, "it was a loss the last time, a trial");
    }
  }
  if (best == nullptr) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [of, off] : losses) least = std::min(least, predicted_of(*of));
    return raw_because("compressed it took longer the last time", least);
  }
  if (kept.may_try(predicted_of(*best) - one.raw_seconds, kEvery)) {
    const Codec codec = one.codecs[(kept.turn + 1) % one.codecs.size()];
    kept.begin_trial(codec);
    return compressed(one, codec, "it has not been tried for long, a trial");
  }
  return raw_because(best->ratio() <= 1.005 ? "no codec makes it smaller"
                                            : name_of(best->codec) + " saves too little (ratio " +
                                                  text("%.2f", best->ratio()) + ")",
                     predicted_of(*best));
}

void Rule::State::learn_compressed(const Transfer& transfer, const Decision& decision,
                                   const Outcome& outcome, Kept& kept) {
  const Codec codec = decision.codec.value_or(Codec::raw);
  kept.end_trial(codec);
  const auto size = static_cast<double>(transfer.bytes);
  const double share = static_cast<double>(std::max<std::size_t>(outcome.wire_bytes, 1)) / size;
  const auto expected = raw.seconds(transfer.path, transfer.bytes);
  const double loss = expected ? outcome.seconds - *expected : 0;
  if (loss > 0) {
    // one that was held up by something else shall not forbid trials for ever
    const double likely =
        std::max(decision.compressed_seconds.value_or(*expected) - *expected, 0.0);
    kept.lost_seconds += std::min(loss, likely + 2 * *expected);
  }
  const CodecKey key(transfer.dtype, transfer.path, codec);
  // kernels had to be loaded, memory to be taken: it tells nothing
  if (!std::exchange(warm[key], true) && loss > 0) return;
  std::optional<double> times;
  if (const auto link = raw.link(transfer.path, transfer.bytes)) {
    times = std::clamp(slowness_of(size, 1 / share, at_best, *link, outcome.seconds),
                       kLeastSlowness, kMostSlowness);
    const double old = slowness.try_emplace(key, *times).first->second;
    slowness[key] = old + kNewest * (std::min(*times, 2 * old) - old);
  }
  const auto usual = codecs_of(transfer.dtype);
  // somebody else chose it, and would again
  if (!only && std::find(usual.begin(), usual.end(), codec) == usual.end()) kept.settled = true;
  const int size_of = size_class(transfer.bytes);
  if (CodecKept* known = kept.find(codec))
    known->take(share, times, kept.off.contains({size_of, codec}) ? 1 : kNewest);
  else
    kept.codecs.push_back({codec, share, times, decision.dimensionality});
  if (expected) kept.switch_codec(size_of, codec, loss, outcome.seconds < kMargin * *expected);
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

void Rule::learn(const Transfer& transfer, const Decision& decision, const Outcome& outcome) {
  const std::lock_guard lock(state_->mutex);
  if (transfer.bytes == 0 || outcome.seconds <= 0) return;
  Kept& kept = state_->kept_of(transfer);
  kept.spent_seconds += outcome.seconds;
  if (outcome.compressed) return state_->learn_compressed(transfer, decision, outcome, kept);
  state_->raw.take(transfer.path, transfer.bytes, outcome.seconds);
  if (decision.compress) {  // there was no room for it: the trial is over, and tells nothing
    kept.end_trial(decision.codec.value_or(Codec::raw));
    kept.last_trial = kept.decisions;
  }
}

}  // namespace lanescope::compression
