#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "compress/channel.hpp"
#include "compress/device_sample.hpp"
#include "library/recent.hpp"
#include "library/seam.hpp"

namespace lanescope::compression {

/// How the arrays of a channel travel: as its decider says, with a codec found where that names
/// none.
class Deciding {
 public:
  /// A rule counts with `fill_bytes` that are coded before the whole pipeline is at work.
  Deciding(const ChannelOptions& options, std::size_t fill_bytes);

  const std::shared_ptr<Decider>& decider() const noexcept { return decider_; }

  /// The decision with the codec that is to be used. The array lies on the current device.
  Decision decide(const Transfer& transfer, std::span<const std::byte> array, cudaStream_t stream);

 private:
  /// Hands over what blocks became, and begins the next look where the decider wants one.
  void look(const Transfer& transfer, std::span<const std::byte> array, cudaStream_t stream);
  core::Choice choose(const Transfer& transfer, std::span<const std::byte> array,
                      cudaStream_t stream);

  std::shared_ptr<Decider> decider_;
  std::optional<Codec> codec_;
  std::mutex mutex_;
  core::Looker looker_;
  Transfer looked_at_{};
  struct Chosen {
    std::optional<core::Choice> choice;
    int uses = 0;
  };
  Recent<std::pair<std::string, Dtype>, Chosen> chosen_{1024};
};

/// What a decision means to channels of the core.
std::optional<core::Choice> choice_of(const Decision& decision, Dtype dtype);

/// Options with what the user left out taken from the usual ones.
ChannelOptions filled_up(ChannelOptions options, const core::ChannelOptions& usual);

/// The core's settings of a channel whose options are filled up.
core::ChannelOptions core_of(const ChannelOptions& options);

}  // namespace lanescope::compression
