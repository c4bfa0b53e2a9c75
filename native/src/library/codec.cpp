#include <limits>
#include <optional>
#include <string>

#include "choosing.hpp"
#include "lanescope/compress/device_codec.hpp"
#include "lanescope/compress/host_codec.hpp"
#include "lanescope/cuda_handles.hpp"
#include "seam.hpp"

namespace lanescope::compression {

namespace {

using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;

constexpr int kMostThreads = 1024;

void require_threads(int threads) {
  if (threads < 0 || threads > kMostThreads)
    refuse(std::to_string(threads) + " threads are not 0 to " + std::to_string(kMostThreads));
}

void require_sms(int sms) {
  if (sms < 0) refuse("the number of SMs is not 0 or more");
}

/// Throws `Error` where no array of so many bytes is of that shape.
std::vector<std::uint64_t> shape_of(std::size_t bytes, const Options& options) {
  const std::size_t each = value_bytes(options.dtype);
  if (bytes % each != 0)
    refuse(std::to_string(bytes) + " bytes are no whole values of " + std::to_string(each) +
           " bytes; give dtype bytes, or all of the last value");
  if (options.shape.empty()) return {bytes / each};
  std::uint64_t values = 1;
  bool fits = true;
  for (const std::uint64_t side : options.shape) {
    fits = fits && (side == 0 || values <= std::numeric_limits<std::uint64_t>::max() / side);
    values *= side;
  }
  if (!fits || values != bytes / each)
    refuse("the shape is not that of the " + std::to_string(bytes / each) + " values that came");
  return options.shape;
}

template <typename Sample>
core::Choice choice_of(const Options& options, Sample sample) {
  const core::Dtype dtype = core_of(options.dtype);
  if (options.codec) return {core_of(*options.codec), dtype, options.dimensionality};
  return smallest(dtype, sample());
}

/// nvCOMP, opened the first time that it is needed, for such streams; null for others, and where it
/// is not there: that is said where a block needs it.
const core::Nvcomp* nvcomp_for(core::Codec codec) {
  if (!core::by_nvcomp(codec)) return nullptr;
  static const std::optional<core::Nvcomp> opened = []() -> std::optional<core::Nvcomp> {
    try {
      return core::Nvcomp();
    } catch (const lanescope::Error&) {  // as if it were not installed
      return std::nullopt;
    }
  }();
  return opened ? &*opened : nullptr;
}

StreamInfo info_of(const core::Layout& layout) {
  const core::Header& header = layout.header;
  return {static_cast<Codec>(header.codec),
          static_cast<Dtype>(header.dtype),
          header.dimensionality,
          layout.shape,
          header.bytes,
          header.stored_bytes};
}

}  // namespace

std::size_t value_bytes(Dtype dtype) {
  return told([&] { return core::bytes_of(core_of(dtype)); });
}

std::size_t most_bytes(std::size_t array_bytes, std::size_t dimensions) {
  return core::most_stream_bytes(array_bytes, dimensions);
}

std::size_t compress_into(Bytes array, Room out, const Options& options) {
  return told([&] {
    require_threads(options.threads);
    const auto shape = shape_of(array.size(), options);
    const auto choice = choice_of(options, [&] { return sample_on_host(array); });
    return core::compress_on_host(choice, array, shape, out, options.threads);
  });
}

std::vector<std::byte> compress(Bytes array, const Options& options) {
  return told([&] {
    const std::size_t sides = options.shape.empty() ? 1 : options.shape.size();
    std::vector<std::byte> stream(most_bytes(array.size(), sides));
    stream.resize(compress_into(array, stream, options));
    stream.shrink_to_fit();
    return stream;
  });
}

StreamInfo describe(Bytes stream) {
  return told([&] { return info_of(core::layout_of(stream)); });
}

void decompress_into(Bytes stream, Room out, int threads) {
  told([&] {
    require_threads(threads);
    core::decompress_on_host(core::layout_of(stream), stream, out, threads);
  });
}

std::vector<std::byte> decompress(Bytes stream, int threads) {
  return told([&] {
    require_threads(threads);
    const core::Layout layout = core::layout_of(stream);
    std::vector<std::byte> out(layout.header.bytes);
    core::decompress_on_host(layout, stream, out, threads);
    return out;
  });
}

std::size_t compress_on_gpu(Bytes array, Room out, const Options& options, cudaStream_t on) {
  return told([&] {
    require_sms(options.sms);
    const auto shape = shape_of(array.size(), options);
    const int gpu = gpu_of(out.data(), "the stream's memory");
    require_on(gpu, array, "the array");
    const lanescope::ScopedDevice scope(gpu);
    const auto choice = choice_of(options, [&] { return sample_on_gpu(array, on); });
    return core::compress_on_device(choice, array, shape, out, on, options.sms,
                                    nvcomp_for(choice.codec));
  });
}

StreamInfo describe_on_gpu(Bytes stream, cudaStream_t on) {
  return told([&] {
    const lanescope::ScopedDevice scope(gpu_of(stream.data(), "the stream"));
    return info_of(core::layout_on_device(stream, on));
  });
}

void decompress_on_gpu(Bytes stream, Room out, cudaStream_t on, int sms) {
  told([&] {
    require_sms(sms);
    const int gpu = gpu_of(stream.data(), "the stream");
    require_on(gpu, out, "the array for the values");
    const lanescope::ScopedDevice scope(gpu);
    const core::Layout layout = core::layout_on_device(stream, on);
    core::decompress_on_device(layout, stream, out, on, sms, nvcomp_for(layout.header.codec));
  });
}

}  // namespace lanescope::compression
