#include "compress/choosing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "compress/candidates.hpp"
#include "compress/codecs/gfc.hpp"
#include "compress/format.hpp"
#include "compress/host_strips.hpp"

namespace lanescope::compress {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kSampledBlocks = 8;
constexpr int kMostDimensionality = 32;
constexpr std::size_t kAligned = 16;  // bytes, as strips have to be; a multiple of any value's
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

/// Where a codec is tried: eight pieces of a sample at most, an eighth of it or more. A piece is a
/// strip, of short samples half of one: codecs keep nothing from strip to strip.
std::vector<Bytes> pieces_of(Bytes sample) {
  const std::size_t piece = sample.size() < 4 * kBlockBytes ? kStripBytes / 2 : kStripBytes;
  if (sample.size() <= 2 * piece) return {sample};
  const std::size_t count = std::clamp<std::size_t>(sample.size() / kBlockBytes, 2, kSampledBlocks);
  std::vector<Bytes> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t middle = (2 * i + 1) * sample.size() / (2 * count);
    const std::size_t begin = middle - piece / 2;
    pieces.push_back(sample.subspan(begin - begin % kAligned, piece));
  }
  return pieces;
}

bool is_constant(Bytes data, std::size_t value_bytes) {
  return data.size() > value_bytes &&
         std::memcmp(data.data(), data.data() + value_bytes, data.size() - value_bytes) == 0;
}

/// How long the payloads of pieces become.
class Scale {
 public:
  explicit Scale(Dtype dtype)
      : dtype_(dtype), out_(std::make_unique_for_overwrite<std::byte[]>(kMostPayloadBytes)) {}

  std::size_t bytes(Codec codec, int dimensionality, std::span<const Bytes> pieces) {
    std::size_t sum = 0;
    for (const Bytes& piece : pieces) sum += bytes(codec, dimensionality, piece);
    return sum;
  }

 private:
  std::size_t bytes(Codec codec, int dimensionality, Bytes piece) {
    if (is_constant(piece, bytes_of(dtype_))) return padded(bytes_of(dtype_));
    const Bytes whole = piece.first(piece.size() - piece.size() % bytes_of(dtype_));
    if (whole.empty()) return padded(piece.size());
    std::memcpy(in_.bytes, whole.data(), whole.size());
    const StripKind kind{codec, dtype_, dimensionality};
    const std::size_t used = host_strips().encode(kind, in_.bytes, whole.size(), out_.get());
    return std::min(padded(used), padded(piece.size()));
  }

  struct alignas(kAligned) {
    std::byte bytes[kBlockBytes];
  } in_;
  Dtype dtype_;
  std::unique_ptr<std::byte[]> out_;
};

/// The piece whose bytes differ most often from those eight before: it tells most.
Bytes least_even(std::span<const Bytes> pieces) {
  constexpr std::size_t back = 8;
  Bytes best = pieces.front();
  std::size_t most = 0;
  for (const Bytes& one : pieces) {
    std::size_t differ = 0;
    for (std::size_t i = back; i < one.size(); ++i) differ += one[i] != one[i - back];
    if (differ > most) {
      most = differ;
      best = one;
    }
  }
  return best;
}

/// By one more than the highest bit of a magnitude, 0 for none: the bytes that GFC takes.
template <typename Word>
constexpr auto kGfcBytes = [] {
  std::array<std::uint8_t, 8 * sizeof(Word) + 1> found{};
  for (std::size_t bits = 1; bits < found.size(); ++bits)
    found[bits] = static_cast<std::uint8_t>(
        GfcResidual<Word>::bytes_of(GfcResidual<Word>::code_of(Word{1} << (bits - 1))));
  return found;
}();

/// Bytes that GFC takes for some rows of a piece; `most` or more where it is not less.
template <typename Word>
std::size_t gfc_bytes(Bytes piece, int dimensionality, std::size_t most) {
  const std::size_t rows = piece.size() >> 10;
  const std::size_t there = piece.size() / (kLanes * sizeof(Word));
  std::size_t sum = 0;
  for (std::size_t i = 0; i < std::min(rows, there) && sum < most; ++i) {
    const std::size_t row = there <= rows ? i : i * there / rows;
    Word words[2 * kLanes]{};  // the row, and the one before it
    const std::size_t before = row > 0 ? kLanes : 0;
    std::memcpy(words + kLanes - before, piece.data() + (row * kLanes - before) * sizeof(Word),
                (kLanes + before) * sizeof(Word));
    const Word *own = words + kLanes, *last = own - dimensionality;
    for (int begin = 0; begin < kLanes; begin += dimensionality)
      for (int lane = begin; lane < std::min(begin + dimensionality, kLanes); ++lane) {
        const Word residual = own[lane] - last[lane - begin];
        const Word magnitude = residual >> (8 * sizeof(Word) - 1) ? 0 - residual : residual;
        sum += kGfcBytes<Word>[static_cast<std::size_t>(std::bit_width(magnitude))];
      }
  }
  return sum;
}

int best_dimensionality(Dtype dtype, Bytes piece) {
  const auto bytes = dtype == Dtype::float64 ? gfc_bytes<std::uint64_t> : gfc_bytes<std::uint32_t>;
  int best = 1;
  std::size_t least = bytes(piece, 1, piece.size() + 1);
  for (int one = 2; one <= kMostDimensionality; ++one) {
    const std::size_t found = bytes(piece, one, least);
    if (found < least) {
      least = found;
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

HostSample::HostSample(Bytes array) : array_(array) {
  if (parts_of(array).size() > 1)
    own_ = sample_of(array,
                     [](std::byte* to, Bytes part) { std::memcpy(to, part.data(), part.size()); });
}

HostSample sample_on_host(Bytes array) {
  return HostSample(array);
}

std::vector<Sized> sizes_of(Dtype dtype, Bytes sample, std::span<const Codec> codecs) {
  const auto pieces = pieces_of(sample);
  std::size_t raw = 0;
  for (const Bytes& piece : pieces) raw += std::max(padded(piece.size()), kAligned);
  Scale scale(dtype);
  std::vector<Sized> sizes;
  for (const Codec codec : codecs) {
    const int dimensionality =
        codec == Codec::gfc ? best_dimensionality(dtype, least_even(pieces)) : 1;
    const std::size_t bytes = scale.bytes(codec, dimensionality, pieces);
    sizes.push_back({codec, dimensionality, static_cast<double>(bytes) / static_cast<double>(raw)});
  }
  return sizes;
}

namespace {

Choice least_of(Dtype dtype, std::span<const Sized> sizes, UpdateKind without) {
  const auto least = std::min_element(
      sizes.begin(), sizes.end(),
      [](const Sized& one, const Sized& other) { return one.share < other.share; });
  Choice choice{Codec::raw, dtype, 1};
  choice.difference = without;
  if (least == sizes.end() || least->share >= 1 - kLeastSaved) return choice;
  choice.codec = least->codec;
  choice.dimensionality = least->dimensionality;
  choice.difference = least->difference;
  return choice;
}

}  // namespace

std::vector<Sized> update_sizes_of(Dtype dtype, Bytes sample, Bytes base,
                                   std::span<const Codec> codecs) {
  std::vector<Sized> found;
  std::vector<std::byte> differences(sample.size());
  for (const UpdateKind kind : {UpdateKind::subtraction, UpdateKind::exclusive_or}) {
    take_differences(Differing::of(kind, bytes_of(dtype)), sample, base.data(), differences.data());
    auto sizes = sizes_of(dtype, differences, codecs);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      sizes[i].difference = kind;
      if (i == found.size())
        found.push_back(sizes[i]);
      else if (sizes[i].share < found[i].share)
        found[i] = sizes[i];
    }
  }
  return found;
}

Choice smallest(Dtype dtype, Bytes sample) {
  if (sample.empty()) return {Codec::raw, dtype, 1};
  return least_of(dtype, sizes_of(dtype, sample, tried_by_auto(dtype)), UpdateKind::none);
}

Choice smallest_update(std::optional<Codec> codec, Dtype dtype, int dimensionality, Bytes sample,
                       Bytes base) {
  // where differences are stored as they are, or there are none, either serves
  Choice choice{codec.value_or(Codec::raw), dtype, dimensionality};
  choice.difference = UpdateKind::exclusive_or;
  if (sample.empty() || (codec && !takes(*codec, dtype))) return choice;  // or it is refused later
  const auto codecs = codec ? std::vector{*codec} : tried_by_auto(dtype);
  const auto sizes = update_sizes_of(dtype, sample, base, codecs);
  if (!codec) return least_of(dtype, sizes, UpdateKind::exclusive_or);
  choice.difference = sizes.front().difference;
  return choice;
}

namespace {

// Seconds a byte of kernels of updates on 80 SMs of an H100, the slower of coding and decoding
// (docs/compression-speed.md#kernels-on-an-h100): of codecs that read values and base once,
// without what they store and for all of it (1.22, 1.45 and 1.86 ps a byte were measured where
// they store 0.09, 0.23 and 0.34 of it), and of others.
constexpr double kOnce = 1.0e-12, kOnceStored = 2.3e-12, kTwice = 1 / 480e9;

double seconds_a_byte(const Sized& one, Dtype dtype, double link) {
  const double kernels =
      codes_in_order(one.codec, dtype) ? kOnce + kOnceStored * one.share : kTwice;
  return std::max(one.share / link, kernels);
}

}  // namespace

Choice fastest_update(Dtype dtype, Bytes sample, Bytes base, double link) {
  auto sizes = update_sizes_of(dtype, sample, base, tried_by_auto(dtype));
  std::erase_if(sizes, [](const Sized& one) { return one.share >= 1 - kLeastSaved; });
  const auto soonest =
      std::min_element(sizes.begin(), sizes.end(), [&](const Sized& one, const Sized& other) {
        return std::pair(seconds_a_byte(one, dtype, link), one.share) <
               std::pair(seconds_a_byte(other, dtype, link), other.share);
      });
  const std::size_t count = soonest == sizes.end() ? 0 : 1;
  return least_of(dtype, {soonest, count}, UpdateKind::exclusive_or);
}

}  // namespace lanescope::compress
