#include "library/codec.hpp"

#include <iterator>
#include <limits>
#include <string>

namespace lanescope::compression {

namespace {

using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;

constexpr int kMostThreads = 1024;

void require_threads(int threads) {
  if (threads < 0 || threads > kMostThreads)
    refuse(std::to_string(threads) + " threads are not 0 to " + std::to_string(kMostThreads));
}

void require_dtype(Dtype dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  if (number >= std::size(kDtypes))
    refuse("there is no type of values with the number " + std::to_string(number) +
           "; give one of kDtypes");
}

}  // namespace

std::vector<std::uint64_t> shape_of(std::size_t bytes, const Options& options) {
  require_dtype(options.dtype);
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

StreamInfo info_of(const core::Layout& layout) {
  const core::Header& header = layout.header;
  return {header.codec, header.dtype,        header.dimensionality, layout.shape,
          header.bytes, header.stored_bytes, header.difference(),   layout.base};
}

std::size_t value_bytes(Dtype dtype) {
  return for_users([&] { return core::bytes_of(dtype); });
}

std::size_t most_bytes(std::size_t array_bytes, std::size_t dimensions) {
  return core::most_stream_bytes(array_bytes, dimensions);
}

std::size_t compress_into(Bytes array, Room out, const Options& options) {
  return for_users([&] {
    require_threads(options.threads);
    const auto shape = shape_of(array.size(), options);
    const auto choice = choice_of(options, array, core::sample_on_host);
    return core::compress_on_host(choice, array, shape, out, options.threads, options.base);
  });
}

std::vector<std::byte> compress(Bytes array, const Options& options) {
  return for_users([&] {
    const std::size_t sides = options.shape.empty() ? 1 : options.shape.size();
    std::vector<std::byte> stream(most_bytes(array.size(), sides + (options.base ? 1 : 0)));
    stream.resize(compress_into(array, stream, options));
    stream.shrink_to_fit();
    return stream;
  });
}

StreamInfo describe(Bytes stream) {
  return for_users([&] { return info_of(core::layout_of(stream)); });
}

void decompress_into(Bytes stream, Room out, int threads, std::optional<Bytes> base) {
  for_users([&] {
    require_threads(threads);
    core::decompress_on_host(core::layout_of(stream), stream, out, threads, base);
  });
}

std::vector<std::byte> decompress(Bytes stream, int threads, std::optional<Bytes> base) {
  return for_users([&] {
    require_threads(threads);
    const core::Layout layout = core::layout_of(stream);
    core::require_base(layout, base, {});
    std::vector<std::byte> out(layout.header.bytes);
    core::decompress_on_host(layout, stream, out, threads, base);
    return out;
  });
}

}  // namespace lanescope::compression
