#include "compress/choosing.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "compress/format.hpp"

namespace lanescope::compress {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kSampledBlocks = 8;
constexpr int kMostDimensionality = 32;
constexpr double kLeastSaved = 0.01;  // a codec that saves less costs more than it gains

/// The parts of an array that make its sample.
std::vector<Bytes> parts_of(Bytes array) {
  const std::size_t blocks = array.size() / kBlockBytes;
  if (blocks <= kSampledBlocks) return {array};
  std::vector<Bytes> parts;
  const double last = static_cast<double>(blocks - 1), step = last / (kSampledBlocks - 1);
  for (std::size_t i = 0; i < kSampledBlocks; ++i) {
    const double at = i + 1 < kSampledBlocks ? static_cast<double>(i) * step : last;
    parts.push_back(array.subspan(static_cast<std::size_t>(at) * kBlockBytes, kBlockBytes));
  }
  return parts;
}

/// How long streams become.
class Scale {
 public:
  Scale(Dtype dtype, std::size_t most) : dtype_(dtype), room_(most_stream_bytes(most, 1)) {}

  std::size_t bytes(Codec codec, int dimensionality, Bytes data) {
    const std::uint64_t values = data.size() / bytes_of(dtype_);
    return compress_on_host({codec, dtype_, dimensionality}, data, {&values, 1}, room_, 1);
  }

 private:
  Dtype dtype_;
  std::vector<std::byte> room_;
};

/// The block whose bytes differ most often from those eight before: it tells most.
Bytes least_even(Bytes sample) {
  constexpr std::size_t back = 8;
  Bytes best = sample.first(std::min(kBlockBytes, sample.size()));
  std::size_t most = 0;
  for (std::size_t begin = 0; begin < sample.size(); begin += kBlockBytes) {
    const Bytes one = sample.subspan(begin, std::min(kBlockBytes, sample.size() - begin));
    std::size_t differ = 0;
    for (std::size_t i = back; i < one.size(); ++i) differ += one[i] != one[i - back];
    if (differ > most) {
      most = differ;
      best = one;
    }
  }
  return best;
}

int best_dimensionality(Scale& scale, Bytes block) {
  int best = 1;
  std::size_t least = scale.bytes(Codec::gfc, 1, block);
  for (int one = 2; one <= kMostDimensionality; ++one) {
    const std::size_t bytes = scale.bytes(Codec::gfc, one, block);
    if (bytes < least) {
      least = bytes;
      best = one;
    }
  }
  return best;
}

}  // namespace

std::vector<std::byte> sample_of(Bytes array, const CopyPart& copy) {
  const auto parts = parts_of(array);
  std::size_t bytes = 0;
  for (const Bytes& part : parts) bytes += part.size();
  std::vector<std::byte> got(bytes);
  std::byte* end = got.data();
  for (const Bytes& part : parts) {
    if (!part.empty()) copy(end, part);
    end += part.size();
  }
  return got;
}

std::vector<std::byte> sample_on_host(Bytes array) {
  return sample_of(array,
                   [](std::byte* to, Bytes part) { std::memcpy(to, part.data(), part.size()); });
}

Choice smallest(Dtype dtype, Bytes sample) {
  Scale scale(dtype, sample.size());
  const std::size_t raw = most_stream_bytes(sample.size(), 1);
  std::optional<std::size_t> least;
  Choice best{Codec::raw, dtype, 1};
  for (const Codec codec : tried_by_auto(dtype)) {
    const int dimensionality =
        codec == Codec::gfc ? best_dimensionality(scale, least_even(sample)) : 1;
    const std::size_t bytes = scale.bytes(codec, dimensionality, sample);
    if (least && bytes >= *least) continue;
    least = bytes;
    best = {codec, dtype, dimensionality};
  }
  if (least && static_cast<double>(*least) >= static_cast<double>(raw) * (1 - kLeastSaved))
    return {Codec::raw, dtype, 1};
  return best;
}

}  // namespace lanescope::compress
