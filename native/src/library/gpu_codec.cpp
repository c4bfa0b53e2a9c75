#include <optional>

#include "compress/device_codec.hpp"
#include "compress/device_sample.hpp"
#include "cuda/cuda_handles.hpp"
#include "library/codec.hpp"
#include "library/gpu_memory.hpp"

namespace lanescope::compression {

namespace {

using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;

void require_sms(int sms) {
  if (sms < 0) refuse("the number of SMs is not 0 or more");
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

}  // namespace

std::size_t compress_on_gpu(Bytes array, Room out, const Options& options, cudaStream_t on) {
  return for_users([&] {
    require_sms(options.sms);
    const auto shape = shape_of(array.size(), options);
    const int gpu = gpu_of(out.data(), "the stream's memory");
    require_on(gpu, array, "the array");
    const lanescope::ScopedDevice scope(gpu);
    if (options.base) require_on(gpu, *options.base, "the base");
    const auto choice =
        choice_of(options, array, [&](Bytes values) { return core::sample_on_device(values, on); });
    return core::compress_on_device(choice, array, shape, out, on, options.sms,
                                    nvcomp_for(choice.codec), options.base);
  });
}

StreamInfo describe_on_gpu(Bytes stream, cudaStream_t on) {
  return for_users([&] {
    const lanescope::ScopedDevice scope(gpu_of(stream.data(), "the stream"));
    return info_of(core::layout_on_device(stream, on));
  });
}

void decompress_on_gpu(Bytes stream, Room out, cudaStream_t on, int sms,
                       std::optional<Bytes> base) {
  for_users([&] {
    require_sms(sms);
    const int gpu = gpu_of(stream.data(), "the stream");
    require_on(gpu, out, "the array for the values");
    if (base) require_on(gpu, *base, "the base");
    const lanescope::ScopedDevice scope(gpu);
    const core::Layout layout = core::layout_on_device(stream, on);
    core::decompress_on_device(layout, stream, out, on, sms, nvcomp_for(layout.header.codec), base);
  });
}

}  // namespace lanescope::compression
