#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compress/candidates.hpp"
#include "compress/channel.hpp"
#include "compress/host_channel.hpp"
#include "cuda/cuda_handles.hpp"
#include "library/deciding.hpp"
#include "library/gpu_memory.hpp"
#include "library/log.hpp"

namespace lanescope::compression {

namespace {

constexpr std::size_t kPieceBytes = 256 << 20;

std::string name_of(int gpu) {
  std::string name("g");
  return name += std::to_string(gpu);
}

/// What both kinds of channels are made of. The core's channel ends first, and waits; then who
/// decides is told of what has ended.
template <typename Channel>
struct Way {
  template <typename... Arguments>
  Way(const ChannelOptions& options, std::size_t fill_bytes, Arguments&&... arguments)
      : deciding(options, std::min(fill_bytes, *options.slab_bytes)),
        log(deciding.decider()),
        channel(std::make_unique<Channel>(std::forward<Arguments>(arguments)...)),
        only(options.codec) {}
  ~Way() {
    channel.reset();
    try {
      log.settle();
    } catch (...) {  // whoever wants to know asks `synchronize`
    }
  }

  Ticket add(Transfer transfer, Decision decision, std::shared_ptr<core::Ticket> ticket,
             bool learns) {
    auto state = std::make_shared<Ticket::State>(std::move(transfer), std::move(decision),
                                                 std::move(ticket));
    log.add(state, learns);
    return Ticket(std::move(state));
  }

  /// Loads the kernels that may be needed, so that no transfer that is timed waits for it.
  void load(Dtype dtype) {
    const std::lock_guard lock(loading);
    if (!loaded.insert(dtype).second) return;
    const auto codecs = only ? std::vector{*only} : core::codecs_of(dtype);
    for (const Codec codec : codecs) {
      if (codec == Codec::raw || !core::takes(codec, dtype)) continue;
      try {
        channel->load({codec, dtype, 1});
      } catch (const lanescope::Error&) {  // which is told where they are needed
      }
    }
  }

  Deciding deciding;
  Log log;
  std::unique_ptr<Channel> channel;
  std::optional<Codec> only;
  std::mutex loading;
  std::set<Dtype> loaded;
};

}  // namespace

// ---- Tickets

bool Ticket::done() const {
  return told([&] { return state_->ticket->done(); });
}

Outcome Ticket::wait(double patience_seconds) const {
  return told([&] { return state_->wait(patience_seconds); });
}

const Transfer& Ticket::transfer() const noexcept {
  return state_->transfer;
}

const Decision& Ticket::decision() const noexcept {
  return state_->decision;
}

std::string Ticket::why_raw() const {
  return state_->ticket->facts().why_raw;
}

// ---- From GPU to GPU

struct GpuChannel::State : Way<core::DeviceChannel> {
  State(int from_gpu, int to_gpu, const ChannelOptions& options)
      : Way(options, options.over_host ? core::kOverHostFill : core::kPeerFill, from_gpu, to_gpu,
            core_of(options), options.over_host ? core::Via::host : core::Via::peer),
        from(from_gpu),
        to(to_gpu),
        over_host(options.over_host) {}

  int from, to;
  bool over_host;
};

GpuChannel::GpuChannel(int from, int to, const ChannelOptions& options) {
  told([&] {
    require_gpu(from);
    require_gpu(to);
    state_ = std::make_unique<State>(
        from, to, filled_up(options, options.over_host ? core::kOverHost : core::ChannelOptions{}));
  });
}

GpuChannel::~GpuChannel() = default;
GpuChannel::GpuChannel(GpuChannel&&) noexcept = default;
GpuChannel& GpuChannel::operator=(GpuChannel&&) noexcept = default;

Ticket GpuChannel::send(std::span<const std::byte> source, std::span<std::byte> target, Dtype dtype,
                        cudaStream_t source_stream, cudaStream_t target_stream,
                        std::string_view tag) {
  return told([&] {
    State& state = *state_;
    if (target.size() != source.size())
      refuse("the array for the values has " + std::to_string(target.size()) + " bytes, and " +
             std::to_string(source.size()) + " come; give one of as many");
    require_on(state.from, source, "the array to send");
    require_on(state.to, target, "the array for the values");
    state.log.settle();
    const lanescope::ScopedDevice scope(state.from);
    const std::string over = state.over_host ? ">host>" : ">";
    Transfer transfer{std::string(tag), name_of(state.from) + over + name_of(state.to), dtype,
                      source.size()};
    state.load(dtype);
    Decision decision = state.deciding.decide(transfer, source, source_stream);
    auto ticket = state.channel->send(source.data(), target.data(), source.size(),
                                      choice_of(decision, dtype), source_stream, target_stream);
    return state.add(std::move(transfer), std::move(decision), std::move(ticket), true);
  });
}

void GpuChannel::synchronize(double patience_seconds) {
  told([&] { state_->log.synchronize(patience_seconds); });
}

// ---- To the host and back

struct Parcel::State {
  Transfer transfer;
  Decision decision;
  std::shared_ptr<core::Parcel> held;
};

std::size_t Parcel::bytes() const noexcept {
  return state_->held->bytes();
}

Dtype Parcel::dtype() const noexcept {
  return state_->transfer.dtype;
}

std::size_t Parcel::stored_bytes() const {
  return told([&] { return state_->held->stored_bytes(); });
}

struct HostChannel::State : Way<core::HostChannel> {
  State(int device, const ChannelOptions& options, core::RestoreBy restore_by)
      : Way(options, core::kToHost.slab_bytes, device,
            core::HostChannelOptions{core_of(options), kPieceBytes, restore_by}),
        gpu(device) {}

  int gpu;
};

HostChannel::HostChannel(int gpu, const ChannelOptions& options, RestoreBy restore_by) {
  told([&] {
    require_gpu(gpu);
    const bool staged = restore_by == RestoreBy::staged;
    state_ = std::make_unique<State>(gpu, filled_up(options, core::kToHost),
                                     staged ? core::RestoreBy::staged : core::RestoreBy::mapped);
  });
}

HostChannel::~HostChannel() = default;
HostChannel::HostChannel(HostChannel&&) noexcept = default;
HostChannel& HostChannel::operator=(HostChannel&&) noexcept = default;

HostChannel::Offload HostChannel::offload(std::span<const std::byte> source, Dtype dtype,
                                          cudaStream_t stream, std::string_view tag) {
  return told([&] {
    State& state = *state_;
    require_on(state.gpu, source, "the array to offload");
    state.log.settle();
    const lanescope::ScopedDevice scope(state.gpu);
    Transfer transfer{std::string(tag), name_of(state.gpu) + ">host", dtype, source.size()};
    state.load(dtype);
    Decision decision = state.deciding.decide(transfer, source, stream);
    auto [held, ticket] =
        state.channel->offload(source.data(), source.size(), choice_of(decision, dtype), stream);
    Parcel parcel(std::make_shared<Parcel::State>(transfer, decision, std::move(held)));
    return Offload{std::move(parcel),
                   state.add(std::move(transfer), std::move(decision), std::move(ticket), true)};
  });
}

Ticket HostChannel::restore(const Parcel& parcel, std::span<std::byte> target,
                            cudaStream_t stream) {
  return told([&] {
    State& state = *state_;
    if (target.size() != parcel.bytes())
      refuse("the array for the values has " + std::to_string(target.size()) + " bytes, and " +
             std::to_string(parcel.bytes()) + " come; give one of as many");
    require_on(state.gpu, target, "the array for the values");
    state.log.settle();
    Transfer transfer = parcel.state_->transfer;
    transfer.path = "host>" + name_of(state.gpu);
    auto ticket = state.channel->restore(parcel.state_->held, target.data(), stream);
    return state.add(std::move(transfer), parcel.state_->decision, std::move(ticket), false);
  });
}

void HostChannel::prepare(std::size_t bytes) {
  told([&] { state_->channel->prepare(bytes); });
}

std::size_t HostChannel::pinned_bytes() const {
  return told([&] { return state_->channel->arena().pinned_bytes(); });
}

void HostChannel::synchronize(double patience_seconds) {
  told([&] { state_->log.synchronize(patience_seconds); });
}

}  // namespace lanescope::compression
