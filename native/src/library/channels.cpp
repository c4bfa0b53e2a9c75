#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "compress/candidates.hpp"
#include "compress/channel.hpp"
#include "compress/host_channel.hpp"
#include "compress/page_copier.hpp"
#include "compress/stream_memory.hpp"
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

using MaybeBase = std::optional<std::span<const std::byte>>;

/// What a path is to who decides: that of an update is another one, to be learnt about apart.
std::string path_of(std::string path, const std::byte* base) {
  return base == nullptr ? path : "update " + std::move(path);
}

/// Where the base of an array lies; null where there is none. Throws `Error`.
const std::byte* base_for(std::span<const std::byte> array, const MaybeBase& base) {
  if (!base) return nullptr;
  core::require_base_of(array.size(), base);
  return base->data();
}

/// What both kinds of channels are made of. The core's channel ends first, and waits; then who
/// decides is told of what has ended.
template <typename Channel>
struct Way {
  template <typename... Arguments>
  Way(const ChannelOptions& options, std::size_t fill_bytes, double link, Arguments&&... arguments)
      : deciding(options, std::min(fill_bytes, *options.slab_bytes), link),
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
  return for_users([&] { return state_->ticket->done(); });
}

Outcome Ticket::wait(double patience_seconds) const {
  return for_users([&] { return state_->wait(patience_seconds); });
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
      : Way(options, options.over_host ? core::kOverHostFill : core::kPeerFill,
            options.over_host ? core::kHostLink : core::kPeerLink, from_gpu, to_gpu,
            core_of(options), options.over_host ? core::Via::host : core::Via::peer),
        from(from_gpu),
        to(to_gpu),
        over_host(options.over_host) {}

  int from, to;
  bool over_host;
};

GpuChannel::GpuChannel(int from, int to, const ChannelOptions& options) {
  for_users([&] {
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
                        std::string_view tag, std::optional<std::span<const std::byte>> base) {
  return for_users([&] {
    State& state = *state_;
    if (target.size() != source.size())
      refuse("the array for the values has " + std::to_string(target.size()) + " bytes, and " +
             std::to_string(source.size()) + " come; give one of as many");
    require_on(state.from, source, "the array to send");
    require_on(state.to, target, "the array for the values");
    state.log.settle();
    const lanescope::ScopedDevice scope(state.from);
    const std::string over = state.over_host ? ">host>" : ">";
    const std::byte* old = base_for(source, base);
    if (old != nullptr) require_on(state.from, *base, "the base");
    Transfer transfer{std::string(tag),
                      path_of(name_of(state.from) + over + name_of(state.to), old), dtype,
                      source.size()};
    state.load(dtype);
    Decision decision = state.deciding.decide(transfer, source, source_stream, old);
    const auto choice = state.deciding.choice_of(transfer, decision, old);
    auto ticket = state.channel->send(source.data(), target.data(), source.size(), choice,
                                      source_stream, target_stream, choice ? old : nullptr);
    return state.add(std::move(transfer), std::move(decision), std::move(ticket), true);
  });
}

void GpuChannel::synchronize(double patience_seconds) {
  for_users([&] { state_->log.synchronize(patience_seconds); });
}

// ---- To the host and back

struct Parcel::State {
  Transfer transfer;
  Decision decision;
  std::shared_ptr<core::Parcel> held;
  bool has_base;
};

std::size_t Parcel::bytes() const noexcept {
  return state_->held->bytes();
}

Dtype Parcel::dtype() const noexcept {
  return state_->transfer.dtype;
}

std::size_t Parcel::stored_bytes() const {
  return for_users([&] { return state_->held->stored_bytes(); });
}

std::vector<std::byte> Parcel::stream() const {
  return for_users([&] {
    core::Parcel& held = *state_->held;
    std::vector<std::byte> made = held.stream_front(state_->transfer.dtype);
    const std::size_t front = made.size();
    core::Header header;
    std::memcpy(&header, made.data(), sizeof header);
    made.resize(front + header.blocks * core::kBlockBytes);
    made.resize(front + held.copy_payloads(0, header.blocks, std::span(made).subspan(front)));
    return made;
  });
}

void Parcel::evict() {
  for_users([&] { state_->held->evict(); });
}

struct HostChannel::State : Way<core::HostChannel> {
  State(int device, const ChannelOptions& options, core::RestoreBy restore_by)
      : Way(options, core::kToHostFill, core::kHostLink, device,
            core::HostChannelOptions{core_of(options), kPieceBytes, restore_by}),
        gpu(device),
        copier(device) {}

  Offload offload(std::span<const std::byte> source, Dtype dtype, cudaStream_t stream,
                  std::string_view tag, const MaybeBase& base);
  Ticket restore(const Parcel& parcel, std::span<std::byte> target, cudaStream_t stream,
                 const MaybeBase& base);

  int gpu;
  core::PageCopier copier;
};

namespace {

/// Copies pages to where they lie side by side, or back; returns how many bytes that has.
template <typename Byte>
std::vector<core::PageCopy> copies_of(std::span<const std::span<Byte>> pages,
                                      std::byte* side_by_side) {
  std::vector<core::PageCopy> copies;
  std::byte* at = side_by_side;
  for (const std::span<Byte> page : pages) {
    const std::size_t whole = core::padded(page.size());
    if constexpr (std::is_const_v<Byte>)
      copies.push_back(
          {page.data(), at, page.size(), static_cast<std::uint32_t>(whole - page.size())});
    else
      copies.push_back({at, page.data(), page.size()});
    at += whole;
  }
  return copies;
}

template <typename Byte>
std::size_t bytes_side_by_side(std::span<const std::span<Byte>> pages) {
  std::size_t sum = 0;
  for (const std::span<Byte> page : pages) sum += core::padded(page.size());
  return sum;
}

}  // namespace

HostChannel::HostChannel(int gpu, const ChannelOptions& options, RestoreBy restore_by) {
  for_users([&] {
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
                                          cudaStream_t stream, std::string_view tag,
                                          std::optional<std::span<const std::byte>> base) {
  return for_users([&] {
    require_on(state_->gpu, source, "the array to offload");
    return state_->offload(source, dtype, stream, tag, base);
  });
}

HostChannel::Offload HostChannel::State::offload(std::span<const std::byte> source, Dtype dtype,
                                                 cudaStream_t stream, std::string_view tag,
                                                 const MaybeBase& base) {
  const std::byte* old = base_for(source, base);
  if (old != nullptr) require_on(gpu, *base, "the base");
  log.settle();
  const lanescope::ScopedDevice scope(gpu);
  Transfer transfer{std::string(tag), path_of(name_of(gpu) + ">host", old), dtype, source.size()};
  load(dtype);
  Decision decision = deciding.decide(transfer, source, stream, old);
  const auto choice = deciding.choice_of(transfer, decision, old);
  auto [held, ticket] =
      channel->offload(source.data(), source.size(), choice, stream, choice ? old : nullptr);
  Parcel parcel(
      std::make_shared<Parcel::State>(transfer, decision, std::move(held), base.has_value()));
  return {std::move(parcel),
          add(std::move(transfer), std::move(decision), std::move(ticket), true)};
}

HostChannel::Offload HostChannel::offload_many(std::span<const std::span<const std::byte>> pages,
                                               Dtype dtype, cudaStream_t stream,
                                               std::string_view tag) {
  return for_users([&] {
    if (!pages.empty()) require_on(state_->gpu, pages[0], "the first array to offload");
    const lanescope::ScopedDevice scope(state_->gpu);
    const core::StreamMemory room(bytes_side_by_side(pages), stream);
    state_->copier.copy(copies_of(pages, room.data()), core::kPageCtas, stream);
    return state_->offload({room.data(), bytes_side_by_side(pages)}, dtype, stream, tag, {});
  });
}

Ticket HostChannel::restore_many(const Parcel& parcel, std::span<const std::span<std::byte>> pages,
                                 cudaStream_t stream) {
  return for_users([&] {
    const std::size_t bytes = bytes_side_by_side(pages);
    if (bytes != parcel.bytes())
      refuse("the places for the pages have " + std::to_string(bytes) + " bytes, and " +
             std::to_string(parcel.bytes()) + " come; give one of as many for each page");
    if (!pages.empty()) require_on(state_->gpu, pages[0], "the first place for a page");
    const lanescope::ScopedDevice scope(state_->gpu);
    const core::StreamMemory room(bytes, stream);
    Ticket ticket = state_->restore(parcel, {room.data(), bytes}, stream, {});
    state_->copier.copy(copies_of(pages, room.data()), core::kPageCtas, stream);
    return ticket;
  });
}

Parcel HostChannel::load(std::span<const std::byte> stream) {
  return for_users([&] {
    const std::size_t front = core::front_length(stream, stream.size());
    auto held = state_->channel->load(stream.first(front), stream.size());
    const auto room = held->payload_room();
    std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(front), room.size(), room.begin());
    const core::Choice& choice = *held->choice();
    Transfer transfer{{}, name_of(state_->gpu) + ">host", choice.dtype, held->bytes()};
    return Parcel(std::make_shared<Parcel::State>(
        std::move(transfer), Decision{true, choice.codec, choice.dimensionality, "as it was saved"},
        std::move(held), false));
  });
}

std::size_t HostChannel::trim(std::size_t keep_bytes) {
  return for_users([&] { return state_->channel->trim(keep_bytes); });
}

Ticket HostChannel::restore(const Parcel& parcel, std::span<std::byte> target, cudaStream_t stream,
                            std::optional<std::span<const std::byte>> base) {
  return for_users([&] {
    if (target.size() != parcel.bytes())
      refuse("the array for the values has " + std::to_string(target.size()) + " bytes, and " +
             std::to_string(parcel.bytes()) + " come; give one of as many");
    require_on(state_->gpu, target, "the array for the values");
    return state_->restore(parcel, target, stream, base);
  });
}

Ticket HostChannel::State::restore(const Parcel& parcel, std::span<std::byte> target,
                                   cudaStream_t stream, const MaybeBase& base) {
  if (base.has_value() != parcel.state_->has_base)
    refuse(base ? "the parcel holds the whole array and needs no base; leave it out"
                : "the parcel was offloaded with a base; give the same values as its base");
  const std::byte* old = base_for(target, base);
  if (old != nullptr) require_on(gpu, *base, "the base");
  log.settle();
  Transfer transfer = parcel.state_->transfer;
  transfer.path = "host>" + name_of(gpu);
  const auto& held = parcel.state_->held;
  auto ticket = channel->restore(held, target.data(), stream, held->is_update() ? old : nullptr);
  return add(std::move(transfer), parcel.state_->decision, std::move(ticket), false);
}

void HostChannel::prepare(std::size_t bytes) {
  for_users([&] { state_->channel->prepare(bytes); });
}

std::size_t HostChannel::pinned_bytes() const {
  return for_users([&] { return state_->channel->arena().pinned_bytes(); });
}

void HostChannel::synchronize(double patience_seconds) {
  for_users([&] { state_->log.synchronize(patience_seconds); });
}

}  // namespace lanescope::compression
