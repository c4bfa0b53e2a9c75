#include "compress/candidates.hpp"

#include <algorithm>

#include "compress/strips.hpp"

namespace lanescope::compress {

namespace {

/// A codec that codes by strips.
struct Candidate {
  Codec codec;
  int auto_rank;
  bool needs_look;
  int (*rank)(Dtype);
};

/// All of them, in the order of their numbers.
std::vector<Candidate> candidates() {
  std::vector<Candidate> all;
  const auto add = [&]<Codec codec, Coder coder>() {
    if constexpr (coder == Coder::strips)
      all.push_back(
          {codec, CodecOf<codec>::kAutoRank, CodecOf<codec>::kNeedsLook, &CodecOf<codec>::rank});
  };
#define LANESCOPE_ADD(name, number, coder, ...) \
  add.template operator()<Codec::name, Coder::coder>();
  LANESCOPE_CODECS(LANESCOPE_ADD)
#undef LANESCOPE_ADD
  return all;
}

/// Those that take values of a type and have a rank, by rank.
template <typename Rank>
std::vector<Codec> ranked(Dtype dtype, Rank rank) {
  std::vector<Candidate> found;
  for (const Candidate& one : candidates())
    if (rank(one) > 0 && takes(one.codec, dtype)) found.push_back(one);
  std::stable_sort(found.begin(), found.end(), [&](const Candidate& one, const Candidate& other) {
    return rank(one) < rank(other);
  });
  std::vector<Codec> codecs;
  for (const Candidate& one : found) codecs.push_back(one.codec);
  return codecs;
}

}  // namespace

bool takes(Codec codec, Dtype dtype) {
  return codec == Codec::raw || with_strip(codec, dtype, []<typename Strip>(Strip) {});
}

bool codes_in_order(Codec codec, Dtype dtype) {
  bool found = false;
  with_strip(codec, dtype, [&]<typename Strip>(Strip) { found = InOrder<Strip>; });
  return found;
}

bool by_nvcomp(Codec codec) {
  return is_known(codec) && entry_of(codec).coder == Coder::nvcomp;
}

std::vector<Codec> codecs_of(Dtype dtype) {
  return ranked(dtype,
                [dtype](const Candidate& one) { return one.needs_look ? 0 : one.rank(dtype); });
}

std::vector<Codec> codecs_to_look_for(Dtype dtype) {
  return ranked(dtype, [dtype](const Candidate& one) { return one.rank(dtype); });
}

bool needs_look(Codec codec) {
  const auto all = candidates();
  return std::any_of(all.begin(), all.end(), [codec](const Candidate& one) {
    return one.codec == codec && one.needs_look;
  });
}

std::vector<Codec> tried_by_auto(Dtype dtype) {
  return ranked(dtype, [](const Candidate& one) { return one.auto_rank; });
}

}  // namespace lanescope::compress
