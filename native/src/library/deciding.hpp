#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
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
  /// A rule counts with `fill_bytes` that are coded before the whole pipeline is at work; `link`
  /// is that of `core::fastest_update`.
  Deciding(const ChannelOptions& options, std::size_t fill_bytes, double link);

  const std::shared_ptr<Decider>& decider() const noexcept { return decider_; }

  /// The decision with the codec that is to be used. The array lies on the current device, and the
  /// base of an update, too.
  Decision decide(const Transfer& transfer, std::span<const std::byte> array, cudaStream_t stream,
                  const std::byte* base);

  /// What such a decision means to channels of the core.
  std::optional<core::Choice> choice_of(const Transfer& transfer, const Decision& decision,
                                        const std::byte* base);

 private:
  /// Hands over what blocks became, and begins the next look where the decider wants one.
  void look(const Transfer& transfer, std::span<const std::byte> array, cudaStream_t stream,
            const std::byte* base);
  core::Choice choose(const Transfer& transfer, std::span<const std::byte> array,
                      cudaStream_t stream, const std::byte* base);

  std::shared_ptr<Decider> decider_;
  std::optional<Codec> codec_;
  double link_;
  std::mutex mutex_;
  core::Looker looker_;
  Transfer looked_at_{};
  struct Chosen {
    std::optional<core::Choice> choice;
    int uses = 0;
  };
  Recent<std::pair<std::string, Dtype>, Chosen> chosen_{1024}, chosen_of_updates_{1024};
  struct Kind {
    UpdateKind is = UpdateKind::subtraction;  ///< As long as nobody has looked.
  };
  Recent<std::tuple<std::string, Dtype, Codec>, Kind> kinds_{1024};
};

/// Options with what the user left out taken from the usual ones.
ChannelOptions filled_up(ChannelOptions options, const core::ChannelOptions& usual);

/// The core's settings of a channel whose options are filled up.
core::ChannelOptions core_of(const ChannelOptions& options);

}  // namespace lanescope::compression
