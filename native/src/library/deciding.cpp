#include "library/deciding.hpp"

#include "compress/device_sample.hpp"

namespace lanescope::compression {

namespace {

void require_ours(const std::optional<Codec>& codec) {
  if (codec && core::by_nvcomp(*codec))
    refuse(std::string(entry_of(*codec).name) +
           " is a codec of streams, and not of channels; give another one, or none");
}

}  // namespace

Deciding::Deciding(const ChannelOptions& options, std::size_t fill_bytes)
    : decider_(options.decider ? options.decider
                               : std::make_shared<Rule>(fill_bytes, options.codec)),
      codec_(options.codec) {
  require_ours(codec_);
}

Decision Deciding::decide(const Transfer& transfer, std::span<const std::byte> array,
                          cudaStream_t stream) {
  Decision decision = decider_->decide(transfer);
  if (!decision.compress || array.empty()) {
    decision.compress = false;
    decision.codec = Codec::raw;
    return decision;
  }
  if (codec_) decision.codec = codec_;
  require_ours(decision.codec);
  if (!decision.codec) {
    const core::Choice chosen = choose(transfer, array, stream);
    decision.codec = chosen.codec;
    decision.dimensionality = chosen.dimensionality;
  }
  if (*decision.codec == Codec::raw) {
    decision.compress = false;
    decision.reason += ", but no codec makes it smaller";
  }
  return decision;
}

core::Choice Deciding::choose(const Transfer& transfer, std::span<const std::byte> array,
                              cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const std::pair kind(transfer.tag, transfer.dtype);
  const auto known = chosen_.find(kind);
  if (known != chosen_.end()) return known->second;
  const auto found = core::smallest(transfer.dtype, core::sample_on_device(array, stream));
  return chosen_.emplace(kind, found).first->second;
}

std::optional<core::Choice> choice_of(const Decision& decision, Dtype dtype) {
  if (!decision.compress) return std::nullopt;
  return core::Choice{*decision.codec, dtype, decision.dimensionality};
}

ChannelOptions filled_up(ChannelOptions options, const core::ChannelOptions& usual) {
  options.slab_bytes = options.slab_bytes.value_or(usual.slab_bytes);
  options.slots = options.slots.value_or(usual.slots);
  options.sms = options.sms.value_or(usual.sms);
  return options;
}

core::ChannelOptions core_of(const ChannelOptions& options) {
  return {*options.slab_bytes, *options.slots, *options.sms, options.patience_seconds};
}

}  // namespace lanescope::compression
