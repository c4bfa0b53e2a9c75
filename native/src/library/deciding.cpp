#include "library/deciding.hpp"

#include <vector>

namespace lanescope::compression {

namespace {

constexpr int kRawUses = 16;  // after which an array is looked at again that no codec made smaller

void require_ours(const std::optional<Codec>& codec) {
  if (codec && core::by_nvcomp(*codec))
    refuse(std::string(entry_of(*codec).name) +
           " is a codec of streams, and not of channels; give another one, or none");
}

}  // namespace

Deciding::Deciding(const ChannelOptions& options, std::size_t fill_bytes, double link)
    : decider_(options.decider ? options.decider
                               : std::make_shared<Rule>(fill_bytes, options.codec)),
      codec_(options.codec),
      link_(link) {
  require_ours(codec_);
}

Decision Deciding::decide(const Transfer& transfer, std::span<const std::byte> array,
                          cudaStream_t stream, const std::byte* base) {
  if (!array.empty()) look(transfer, array, stream, base);
  Decision decision = decider_->decide(transfer);
  if (!decision.compress || array.empty()) {
    decision.compress = false;
    decision.codec = Codec::raw;
    return decision;
  }
  if (codec_) decision.codec = codec_;
  require_ours(decision.codec);
  if (!decision.codec) {
    const core::Choice chosen = choose(transfer, array, stream, base);
    decision.codec = chosen.codec;
    decision.dimensionality = chosen.dimensionality;
  }
  if (*decision.codec == Codec::raw) {
    decision.compress = false;
    decision.reason += ", but no codec makes it smaller";
  }
  return decision;
}

void Deciding::look(const Transfer& transfer, std::span<const std::byte> array, cudaStream_t stream,
                    const std::byte* base) {
  const std::lock_guard lock(mutex_);
  if (const auto sizes = looker_.take()) {
    std::vector<Sampled> sampled;
    for (const core::Sized& one : *sizes) {
      sampled.push_back({one.codec, one.dimensionality, one.share});
      if (one.difference != UpdateKind::none)
        kinds_.use({looked_at_.tag, looked_at_.dtype, one.codec}).is = one.difference;
    }
    decider_->take_sample(looked_at_, sampled);
  }
  if (!looker_.is_free() || !decider_->wants_sample(transfer)) return;
  looked_at_ = transfer;
  try {
    looker_.begin(array, transfer.dtype, codec_, stream, base);
  } catch (const lanescope::Error&) {  // it goes on without; the transfer says what is wrong
    decider_->take_sample(transfer, {});
  }
}

core::Choice Deciding::choose(const Transfer& transfer, std::span<const std::byte> array,
                              cudaStream_t stream, const std::byte* base) {
  const std::lock_guard lock(mutex_);
  auto& of_kind = base == nullptr ? chosen_ : chosen_of_updates_;
  Chosen& known = of_kind.use({transfer.tag, transfer.dtype});
  const bool raw = known.choice && known.choice->codec == Codec::raw;
  if (known.choice && !(raw && ++known.uses >= kRawUses)) return *known.choice;
  const auto sample = core::sample_on_device(array, stream);
  if (base == nullptr) {
    known = {core::smallest(transfer.dtype, sample)};
  } else {
    const auto of_base = core::sample_on_device({base, array.size()}, stream);
    known = {core::fastest_update(transfer.dtype, sample, of_base, link_)};
    kinds_.use({transfer.tag, transfer.dtype, known.choice->codec}).is = known.choice->difference;
  }
  return *known.choice;
}

std::optional<core::Choice> Deciding::choice_of(const Transfer& transfer, const Decision& decision,
                                                const std::byte* base) {
  if (!decision.compress) return std::nullopt;
  core::Choice choice{*decision.codec, transfer.dtype, decision.dimensionality};
  if (base == nullptr) return choice;
  const std::lock_guard lock(mutex_);
  choice.difference = kinds_.use({transfer.tag, transfer.dtype, choice.codec}).is;
  return choice;
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
