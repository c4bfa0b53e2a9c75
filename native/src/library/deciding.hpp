#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "compress/channel.hpp"
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
  core::Choice choose(const Transfer& transfer, std::span<const std::byte> array,
                      cudaStream_t stream);

  std::shared_ptr<Decider> decider_;
  std::optional<Codec> codec_;
  std::mutex mutex_;
  std::map<std::pair<std::string, Dtype>, core::Choice> chosen_;
};

/// What a decision means to channels of the core.
std::optional<core::Choice> choice_of(const Decision& decision, Dtype dtype);

/// Options with what the user left out taken from the usual ones.
ChannelOptions filled_up(ChannelOptions options, const core::ChannelOptions& usual);

/// The core's settings of a channel whose options are filled up.
core::ChannelOptions core_of(const ChannelOptions& options);

}  // namespace lanescope::compression
