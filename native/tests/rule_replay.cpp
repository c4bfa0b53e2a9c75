// Says what the rule decides about transfers, one line each, and learns what became of them
// (`rule_replay SLAB_BYTES [CODEC]`):
//
//   wants ID TAG PATH TYPE BYTES            ->  WANTS
//   sample ID COUNT (CODEC DIMENSIONALITY SHARE)...
//   decide ID TAG PATH TYPE BYTES           ->  COMPRESS CODEC DIMENSIONALITY RAW_S COMPRESSED_S
//                                               REASON
//   learn ID SECONDS WIRE_BYTES COMPRESSED
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lanescope/compression.hpp"

namespace {

namespace lc = lanescope::compression;

struct UnderWay {
  lc::Transfer transfer{};
  lc::Decision decision{};
};

template <typename T>
T next() {
  T value{};
  std::cin >> value;
  return value;
}

/// As `float.__repr__` of Python writes it, to the last bit.
double next_double() {
  return std::stod(next<std::string>());
}

lc::Transfer next_transfer() {
  lc::Transfer transfer{};
  transfer.tag = next<std::string>();
  transfer.path = next<std::string>();
  transfer.dtype = static_cast<lc::Dtype>(next<int>());
  transfer.bytes = next<std::size_t>();
  return transfer;
}

std::vector<lc::Sampled> next_sample() {
  std::vector<lc::Sampled> sample(next<std::size_t>());
  for (lc::Sampled& one : sample) {
    one.codec = static_cast<lc::Codec>(next<int>());
    one.dimensionality = next<int>();
    one.wire_share = next_double();
  }
  return sample;
}

void decide(lc::Rule& rule, UnderWay& one) {
  one.decision = rule.decide(one.transfer);
  const lc::Decision& said = one.decision;
  std::printf("%d %d %d %a %a %s\n", said.compress, static_cast<int>(*said.codec),
              said.dimensionality, said.raw_seconds.value_or(-1),
              said.compressed_seconds.value_or(-1), said.reason.c_str());
}

void learn(lc::Rule& rule, const UnderWay& one) {
  lc::Outcome outcome{};
  outcome.bytes = one.transfer.bytes;
  outcome.seconds = next_double();
  outcome.wire_bytes = next<std::size_t>();
  outcome.compressed = next<bool>();
  rule.learn(one.transfer, one.decision, outcome);
}

}  // namespace

int main(int count, char** words) {
  std::optional<lc::Codec> codec;
  if (count > 2) codec = static_cast<lc::Codec>(std::atoi(words[2]));
  lc::Rule rule(std::strtoul(words[1], nullptr, 10), codec);
  std::map<int, UnderWay> under_way;
  std::string what;
  int id = 0;
  while (std::cin >> what >> id) {
    UnderWay& one = under_way[id];
    if (what == "wants") {
      one.transfer = next_transfer();
      std::printf("%d\n", rule.wants_sample(one.transfer));
    } else if (what == "sample") {
      rule.take_sample(one.transfer, next_sample());
    } else if (what == "decide") {
      one.transfer = next_transfer();
      decide(rule, one);
    } else {
      learn(rule, one);
    }
  }
}
