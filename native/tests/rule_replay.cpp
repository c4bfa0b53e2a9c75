// Says what the rule decides about transfers, one line each, and learns what became of them
// (`rule_replay SLAB_BYTES [CODEC]`):
//
//   decide ID TAG PATH TYPE BYTES        ->  COMPRESS CODEC DIMENSIONALITY RAW_S COMPRESSED_S
//   REASON learn ID SECONDS WIRE_BYTES COMPRESSED
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lanescope/compression.hpp"

int main(int count, char** words) {
  namespace lc = lanescope::compression;
  std::optional<lc::Codec> codec;
  if (count > 2) codec = static_cast<lc::Codec>(std::atoi(words[2]));
  lc::Rule rule(std::strtoul(words[1], nullptr, 10), codec);
  std::map<int, std::pair<lc::Transfer, lc::Decision>> under_way;
  std::string what;
  int id = 0;
  while (std::cin >> what >> id) {
    if (what == "decide") {
      lc::Transfer transfer{};
      int dtype = 0;
      std::cin >> transfer.tag >> transfer.path >> dtype >> transfer.bytes;
      transfer.dtype = static_cast<lc::Dtype>(dtype);
      const lc::Decision said = rule.decide(transfer);
      std::printf("%d %d %d %a %a %s\n", said.compress, static_cast<int>(*said.codec),
                  said.dimensionality, said.raw_seconds.value_or(-1),
                  said.compressed_seconds.value_or(-1), said.reason.c_str());
      under_way[id] = {transfer, said};
    } else {
      lc::Outcome outcome{};
      const auto& [transfer, decision] = under_way.at(id);
      outcome.bytes = transfer.bytes;
      std::string seconds;
      std::cin >> seconds >> outcome.wire_bytes >> outcome.compressed;
      outcome.seconds = std::stod(seconds);
      rule.learn(transfer, decision, outcome);
    }
  }
}
