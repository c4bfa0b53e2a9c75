#include "compress/choosing.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

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

std::size_t sample_bytes(Bytes array) {
  std::size_t bytes = 0;
  for (const Bytes& part : parts_of(array)) bytes += part.size();
  return bytes;
}

void copy_sample(Bytes array, std::byte* to, const CopyPart& copy) {
  for (const Bytes& part : parts_of(array)) {
    if (!part.empty()) copy(to, part);
    to += part.size();
  }
}

std::vector<std::byte> sample_of(Bytes array, const CopyPart& copy) {
  std::vector<std::byte> got(sample_bytes(array));
  copy_sample(array, got.data(), copy);
  return got;
}

std::vector<std::byte> sample_on_host(Bytes array) {
  return sample_of(array,
                   [](std::byte* to, Bytes part) { std::memcpy(to, part.data(), part.size()); });
}

std::vector<Sized> sizes_of(Dtype dtype, Bytes sample, std::span<const Codec> codecs) {
  Scale scale(dtype, sample.size());
  const auto raw = static_cast<double>(most_stream_bytes(sample.size(), 1));
  std::vector<Sized> sizes;
  for (const Codec codec : codecs) {
    const int dimensionality =
        codec == Codec::gfc ? best_dimensionality(scale, least_even(sample)) : 1;
    const auto bytes = static_cast<double>(scale.bytes(codec, dimensionality, sample));
    sizes.push_back({codec, dimensionality, bytes / raw});
  }
  return sizes;
}

Choice smallest(Dtype dtype, Bytes sample) {
  const auto sizes = sizes_of(dtype, sample, tried_by_auto(dtype));
  const auto least = std::min_element(
      sizes.begin(), sizes.end(),
      [](const Sized& one, const Sized& other) { return one.share < other.share; });
  if (least == sizes.end() || least->share >= 1 - kLeastSaved) return {Codec::raw, dtype, 1};
  return {least->codec, dtype, least->dimensionality};
}

}  // namespace lanescope::compress
