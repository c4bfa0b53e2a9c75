// What the rule gains on workloads whose links, codecs and arrays are made up, with the cost model
// of rule_costs.hpp: no GPU, no clock, the same numbers on every run.
//
//   rule_workloads               a table: how many times as fast as raw is each way to decide
//   rule_workloads --json        the same as JSON, with the peak of memory
//   rule_workloads NAME          how the rule decided about the transfers of one workload
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compress/candidates.hpp"
#include "lanescope/compression.hpp"
#include "library/rule_costs.hpp"

namespace lc = lanescope::compression;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr double kExpansion = 1.0002;  // what blocks that no codec makes smaller add
constexpr lc::LinkCost kPeer{395, 8e-6}, kHost{55.5, 10e-6};
constexpr lc::CodecCost kFast{600, 900, 30e-6}, kSlow{150, 200, 40e-6};
constexpr lc::CodecCost kFastToPeer{600, 900, 30e-6, 20 * kMiB};

/// The same numbers on every machine, which distributions of the standard library are not.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}
  /// From 0 to less than 1.
  double next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((mixed ^ (mixed >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

using Ratios = std::vector<std::pair<lc::Codec, double>>;

/// One transfer as it will be, however it is decided about.
struct Sent {
  lc::Transfer transfer{"t", "g0>g1", lc::Dtype::bfloat16, 256 * kMiB};
  lc::LinkCost link = kPeer;
  lc::CodecCost cost = kFastToPeer;
  Ratios ratios{};            // of codecs that make it smaller
  Ratios of_blocks = ratios;  // that are looked at
  double held_up = 1;         // times as long, as others use the link
  double times = 1;           // the same with jitter and stalls

  double ratio(lc::Codec codec) const { return ratio_in(ratios, codec); }
  double ratio_of_blocks(lc::Codec codec) const { return ratio_in(of_blocks, codec); }
  static double ratio_in(const Ratios& all, lc::Codec codec) {
    for (const auto& [of, ratio] : all)
      if (of == codec) return ratio;
    return 1 / kExpansion;
  }
  double bytes() const { return static_cast<double>(transfer.bytes); }
  double raw() const { return times * lc::raw_seconds(bytes(), link); }
  double compressed(lc::Codec codec) const {
    return times * lc::compressed_seconds(bytes(), ratio(codec), cost, link);
  }
  lc::Codec smallest() const {
    const auto codecs = lanescope::compress::codecs_to_look_for(transfer.dtype);
    return *std::max_element(codecs.begin(), codecs.end(), [this](lc::Codec one, lc::Codec other) {
      return ratio(one) < ratio(other);
    });
  }
};

struct Workload {
  const char* name;
  const char* what;
  int count;
  std::function<Sent(int, Chance&)> make;
  double stalls = 0;  // share of transfers that take three times as long
  int late = 0;       // transfers until an outcome is known
  double jitter = 0.02;
};

const Ratios kGood{{lc::Codec::exponent, 1.4}}, kNone{}, kRelu{{lc::Codec::zvc, 1.78}};

Sent over_peer(const Ratios& ratios) {
  return {.ratios = ratios};
}

Sent to_host(const Ratios& ratios, const lc::CodecCost& cost = kFast) {
  return {.transfer = {"t", "g0>host", lc::Dtype::bfloat16, 64 * kMiB},
          .link = kHost,
          .cost = cost,
          .ratios = ratios};
}

Sent named(Sent sent, int number) {
  sent.transfer.tag = "t" + std::to_string(number);
  return sent;
}

std::vector<Workload> workloads() {
  const auto peer = [](int, Chance&) { return over_peer(kGood); };
  const auto host = [](int, Chance&) { return to_host(kGood); };
  const auto in_ten = [](Chance& chance) -> const Ratios& {
    return chance.next() < 0.1 ? kNone : kGood;
  };
  const auto slower = [](Sent sent, int i) {  // the link has half its rate in the middle
    if (i / 400 == 1) sent.link.gbs /= 2;
    return sent;
  };
  return {
      {"steady-peer", "ratio 1.4, GPU to GPU", 1000, peer},
      {"steady-host", "ratio 1.4, to the host", 1000, host},
      {"late", "the same, outcomes known 8 transfers later", 1000, host, 0, 8},
      {"stalls-1", "1 in 100 takes three times as long, GPU to GPU", 1000, peer, 0.01},
      {"stalls-5", "5 in 100, GPU to GPU", 1000, peer, 0.05},
      {"stalls-1-host", "1 in 100, to the host", 1000, host, 0.01},
      {"stalls-5-host", "5 in 100, to the host", 1000, host, 0.05},
      {"mixed-peer", "1 array in 10 never smaller, GPU to GPU", 1000,
       [=](int, Chance& chance) { return over_peer(in_ten(chance)); }},
      {"mixed-host", "1 array in 10 never smaller, to the host", 1000,
       [=](int, Chance& chance) { return to_host(in_ten(chance)); }},
      {"mixed-stalls", "1 in 10 never smaller, and 5 in 100 stalled, to the host", 1000,
       [=](int, Chance& chance) { return to_host(in_ten(chance)); }, 0.05},
      {"noisy", "ratio 1.4, times vary by 25 in 100, and 10 in 100 stalled, to the host", 1000,
       host, 0.1, 0, 0.25},
      {"gains-little", "ratio 1.1, times vary by 10 in 100, to the host", 1000,
       [](int, Chance&) { return to_host({{lc::Codec::exponent, 1.1}}); }, 0, 0, 0.1},
      {"bursts", "ratio 1.4, ten in a row of 100 take three times as long, to the host", 1000,
       [](int i, Chance&) {
         Sent sent = to_host(kGood);
         if (i % 100 >= 60 && i % 100 < 70) sent.held_up = 3;
         return sent;
       }},
      {"random-peer", "never smaller, GPU to GPU", 1000,
       [](int, Chance&) { return over_peer(kNone); }},
      {"random-host", "never smaller, to the host, slow codecs", 1000,
       [](int, Chance&) { return to_host(kNone, kSlow); }},
      {"new-tags-random", "a new tag each time, never smaller, to the host, slow codecs", 1000,
       [](int i, Chance&) { return named(to_host(kNone, kSlow), i); }},
      {"new-tags-peer", "a new tag each time, never smaller, GPU to GPU", 300,
       [](int i, Chance&) { return named(over_peer(kNone), i); }},
      {"new-tags-good", "a new tag each time, ratio 1.4, to the host", 1000,
       [](int i, Chance&) { return named(to_host(kGood), i); }},
      {"new-tags-stalls", "a new tag each time, ratio 1.4, and 5 in 100 stalled, to the host", 1000,
       [](int i, Chance&) { return named(to_host(kGood), i); }, 0.05},
      {"random-stalls", "never smaller, slow codecs, and 5 in 100 stalled, to the host", 1000,
       [](int, Chance&) { return to_host(kNone, kSlow); }, 0.05},
      {"far-too-slow", "ratio 1.4 by codecs that are 60 times as slow, to the host", 5000,
       [](int, Chance&) { return to_host(kGood, lc::slower(kFast, 60)); }},
      {"new-tags-half", "a new tag each time, every second never smaller, to the host", 1000,
       [](int i, Chance&) { return named(to_host(i % 2 != 0 ? kNone : kGood), i); }},
      {"two-tags", "two tags in turns, of ratio 1.4 and never smaller, to the host", 1000,
       [](int i, Chance&) { return named(to_host(i % 2 != 0 ? kNone : kGood), i % 2); }},
      {"twenty-tags", "twenty tags in turns, ten of them never smaller, GPU to GPU", 1000,
       [](int i, Chance&) { return named(over_peer(i % 2 != 0 ? kNone : kGood), i % 20); }},
      {"late-sparse", "every third array has zeros and a tag of its own, from 300 on, to the host",
       1000,
       [](int i, Chance&) {
         return i < 300 || i % 3 != 0 ? to_host(kGood) : named(to_host(kRelu), 1);
       }},
      {"relu", "bf16 behind ReLU, zvc 1.78 and nothing by the others, to the host", 120,
       [](int, Chance&) { return to_host(kRelu); }},
      {"relu-peer", "the same, GPU to GPU", 120, [](int, Chance&) { return over_peer(kRelu); }},
      {"blocks-promise", "blocks become smaller by 1.78, arrays never, to the host, slow codecs",
       1000,
       [](int, Chance&) {
         Sent sent = to_host(kNone, kSlow);
         sent.of_blocks = kRelu;
         return sent;
       }},
      {"blocks-deny", "arrays become smaller by 1.4, the blocks that are looked at never", 1000,
       [](int, Chance&) {
         Sent sent = to_host(kGood);
         sent.of_blocks = kNone;
         return sent;
       }},
      {"constant", "one value, to the host", 200,
       [](int, Chance&) {
         return to_host(
             {{lc::Codec::exponent, 2e3}, {lc::Codec::delta, 2e3}, {lc::Codec::zvc, 2e3}});
       }},
      {"ratio-drifts", "ratio 1.4, then never smaller, then 1.4", 1200,
       [](int i, Chance&) { return to_host(i / 400 == 1 ? kNone : kGood); }},
      {"link-drifts", "the link has half its rate in the middle, to the host", 1200,
       [=](int i, Chance&) { return slower(to_host(kGood), i); }},
      {"link-drifts-peer", "the same, GPU to GPU", 1200,
       [=](int i, Chance&) { return slower(over_peer(kGood), i); }},
      {"load", "codecs take 20 times as long in the middle, to the host", 1200,
       [](int i, Chance&) { return to_host(kGood, i / 400 == 1 ? lc::slower(kFast, 20) : kFast); }},
      {"small", "64 KiB each", 10'000,
       [](int, Chance&) {
         Sent sent = to_host(kGood);
         sent.transfer.bytes = 64 << 10;
         return sent;
       }},
      {"sizes", "4 KiB to 128 MiB, to the host", 2000,
       [](int, Chance& chance) {
         Sent sent = to_host(kGood);
         sent.transfer.bytes = std::size_t{4096} << static_cast<int>(chance.next() * 16);
         return sent;
       }},
      {"million-tags", "10^6 tags, ratio 1.4, to the host", 1'000'000,
       [](int i, Chance&) { return named(to_host(kGood), i); }},
  };
}

constexpr double kLookSeconds = 50e-6;  // that copies of eight blocks hold up a transfer

/// Lets the rule look at some blocks, which are there before the next transfer; returns how long
/// that holds this one up.
class Looks {
 public:
  explicit Looks(lc::Rule& rule) : rule_(rule) {}

  double before(const Sent& sent) {
    if (!found_.empty()) rule_.take_sample(of_, found_);
    found_.clear();
    if (!rule_.wants_sample(sent.transfer)) return 0;
    of_ = sent.transfer;
    for (const lc::Codec codec : lanescope::compress::codecs_to_look_for(sent.transfer.dtype))
      found_.push_back({codec, 1, 1 / sent.ratio_of_blocks(codec)});
    return kLookSeconds;
  }

 private:
  lc::Rule& rule_;
  lc::Transfer of_;
  std::vector<lc::Sampled> found_{};
};

struct Seconds {
  double off = 0, on = 0, oracle = 0, rule = 0;
  double gain(double of) const { return off / of; }
};

struct Made {
  Sent sent;
  lc::Decision decision;
  lc::Outcome outcome;
};

/// Sends what a workload has as the rule decides, and adds up what that takes each way.
Seconds play(const Workload& work, bool looking, int seed,
             const std::function<void(int, const Made&)>& each = {}) {
  Chance chance(static_cast<std::uint64_t>(seed));
  lc::Rule rule(work.make(0, chance).cost.slab_bytes);
  Looks looks(rule);
  Seconds sum;
  std::deque<Made> under_way;
  for (int i = 0; i < work.count; ++i) {
    Sent sent = work.make(i, chance);
    sent.times = sent.held_up * (1 + work.jitter * (2 * chance.next() - 1));
    if (chance.next() < work.stalls) sent.times *= 3;
    const double raw = sent.raw(), best = sent.compressed(sent.smallest());
    sum.off += raw;
    sum.on += best;
    sum.oracle += std::min(raw, best);
    if (looking) sum.rule += looks.before(sent);
    lc::Decision decision = rule.decide(sent.transfer);
    lc::Outcome outcome{raw, sent.transfer.bytes, sent.transfer.bytes, decision.compress};
    if (decision.compress) {
      outcome.seconds = sent.compressed(*decision.codec);
      outcome.wire_bytes = static_cast<std::size_t>(sent.bytes() / sent.ratio(*decision.codec));
    }
    sum.rule += outcome.seconds;
    under_way.push_back({std::move(sent), std::move(decision), outcome});
    if (each) each(i, under_way.back());
    if (static_cast<int>(under_way.size()) <= work.late) continue;
    const Made& ended = under_way.front();
    rule.learn(ended.sent.transfer, ended.decision, ended.outcome);
    under_way.pop_front();
  }
  return sum;
}

long peak_bytes() {
  // what getrusage says may be of the process that started this one
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

void print_decisions(const Workload& work) {
  play(work, true, 0, [](int i, const Made& made) {
    std::printf("%d %.0f us %s\n", i, made.outcome.seconds * 1e6, made.decision.reason.c_str());
  });
}

constexpr int kSeeds = 9;

/// Of several seeds: means, and the least that the rule gains, and gains of what always coding
/// does.
struct Gains {
  double always = 0, best = 0, rule = 0, blind = 0, least = 1e9, least_of_always = 1e9;
};

Gains gains_of(const Workload& work) {
  const int seeds = work.count > 100'000 ? 1 : kSeeds;
  Gains gains;
  for (int seed = 0; seed < seeds; ++seed) {
    const Seconds sum = play(work, true, seed), blind = play(work, false, seed);
    gains.always += sum.gain(sum.on) / seeds;
    gains.best += sum.gain(sum.oracle) / seeds;
    gains.rule += sum.gain(sum.rule) / seeds;
    gains.blind += blind.gain(blind.rule) / seeds;
    gains.least = std::min(gains.least, sum.gain(sum.rule));
    gains.least_of_always = std::min(gains.least_of_always, sum.on / sum.rule);
  }
  return gains;
}

void print_table() {
  std::puts("workload         always   best   rule  least  least of always  no looks  what");
  for (const Workload& work : workloads()) {
    const Gains of = gains_of(work);
    std::printf("%-16s  %5.3f  %5.3f  %5.3f  %5.3f            %5.3f     %5.3f  %s\n", work.name,
                of.always, of.best, of.rule, of.least, of.least_of_always, of.blind, work.what);
  }
}

void print_json() {
  std::puts("{");
  for (const Workload& work : workloads()) {
    const Gains of = gains_of(work);
    std::printf(R"( "%s": {"always": %.4f, "best": %.4f, "rule": %.4f, "least": %.4f, )"
                R"("least_of_always": %.4f, "no_looks": %.4f},)"
                "\n",
                work.name, of.always, of.best, of.rule, of.least, of.least_of_always, of.blind);
  }
  std::printf(" \"peak_bytes\": %ld\n}\n", peak_bytes());
}

}  // namespace

int main(int count, char** words) {
  const std::string word = count > 1 ? words[1] : "";
  if (word.empty() || word == "--json") {
    word.empty() ? print_table() : print_json();
    return 0;
  }
  for (const Workload& work : workloads()) {
    if (word != work.name) continue;
    print_decisions(work);
    return 0;
  }
  std::fprintf(stderr, "there is no workload %s; without a name all are listed\n", word.c_str());
  return 2;
}
