#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compress/candidates.hpp"
#include "compress/choosing.hpp"
#include "compress/stream_memory.hpp"

namespace lanescope::compress {

/// The sample, by which a codec is chosen, of an array in the current device's memory, behind what
/// is on a stream. Throws `Error`.
inline std::vector<std::byte> sample_on_device(std::span<const std::byte> array,
                                               cudaStream_t stream) {
  auto sample = sample_of(array, [stream](std::byte* to, std::span<const std::byte> part) {
    copy_behind(to, part.data(), part.size(), stream);
  });
  wait_for(stream);
  return sample;
}

/// Looks at blocks of arrays in a GPU's memory, one array at a time. Nothing waits for it.
class Looker {
 public:
  Looker() = default;
  ~Looker() {
    // copies that have not ended may yet write there: it is given up
    if (under_way_ && !arrived()) static_cast<void>(new DriverMemory(*std::move(memory_)));
  }
  Looker(const Looker&) = delete;
  Looker& operator=(const Looker&) = delete;

  bool is_free() const noexcept { return !under_way_; }

  /// Has blocks of an array in the current device's memory copied, behind what is on a stream, to
  /// see what a codec makes of them; without one those that suit the type. Throws `Error`.
  /// With a base what becomes of the differences to it.
  void begin(std::span<const std::byte> array, Dtype dtype, std::optional<Codec> codec,
             cudaStream_t stream, const std::byte* base = nullptr) {
    if (!memory_) memory_.emplace(DriverMemory::host(2 * kMostSampleBytes, false));
    if (!copied_) copied_.emplace(Timing::none);
    auto* to = static_cast<std::byte*>(memory_->data());
    sample_ = {to, sample_bytes(array)};
    base_sample_ = {to + kMostSampleBytes, base == nullptr ? 0 : sample_.size()};
    dtype_ = dtype;
    codecs_ = codec && takes(*codec, dtype) ? std::vector{*codec} : codecs_to_look_for(dtype);
    under_way_ = true;
    const auto copy = [stream](std::byte* at, std::span<const std::byte> part) {
      copy_behind(at, part.data(), part.size(), stream);
    };
    copy_sample(array, to, copy);
    if (base != nullptr) copy_sample({base, array.size()}, to + kMostSampleBytes, copy);
    check(cudaEventRecord(copied_->get(), stream), "cudaEventRecord");
    recorded_ = true;
  }

  /// What they become by each codec, once they are there; none before. Throws `Error`.
  std::optional<std::vector<Sized>> take() {
    if (!under_way_ || !arrived()) return std::nullopt;
    under_way_ = recorded_ = false;
    if (!base_sample_.empty()) return update_sizes_of(dtype_, sample_, base_sample_, codecs_);
    return sizes_of(dtype_, sample_, codecs_);
  }

 private:
  bool arrived() const {
    if (!recorded_) return false;  // something failed midway: it is never free again
    const cudaError_t status = cudaEventQuery(copied_->get());
    forgive(status);
    return status == cudaSuccess;
  }

  std::optional<DriverMemory> memory_;
  std::optional<Event> copied_;
  std::span<const std::byte> sample_, base_sample_;
  Dtype dtype_ = Dtype::bytes;
  std::vector<Codec> codecs_;
  bool under_way_ = false, recorded_ = false;
};

}  // namespace lanescope::compress
