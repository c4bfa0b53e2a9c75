#include "compress/peer_half.hpp"
#include "compress/room.hpp"

namespace lanescope::compress {

struct PeerReceiver::State : PeerHalf {
  State(int gpu, const ChannelOptions& given)
      : PeerHalf(gpu, given, PeerSlots::rooms_bytes(given)),
        messenger(gpu, static_cast<std::size_t>(given.slots)) {}

  void get_raw(const Ticket& ticket, std::byte* target);
  void get_coded(const Ticket& ticket, const Crossing& crossing, std::byte* target);
  void clear_faults(const Ticket& ticket);
  void settle(Ticket& ticket);
  void tell_all_missing(const Ticket& ticket) const;

  void release(std::size_t slot);

  Messenger messenger;
};

void PeerReceiver::State::get_raw(const Ticket& ticket, std::byte* target) {
  const auto slabs = cut(ticket.facts().bytes, options.slab_bytes);
  for (const Slab& slab : slabs) {
    const auto use = slots->next();
    for (const RawChunk& chunk : chunks_of(slab, &slab == &slabs.back(), options.slab_bytes)) {
      const std::size_t begin = chunk.of_slab.begin;
      wait_for_value(lane(0), slots->stored(use.slot, chunk), use.mark);
      check(cudaMemcpyAsync(target + slab.begin + begin, slots->payloads(use.slot) + begin,
                            chunk.of_slab.bytes, cudaMemcpyDeviceToDevice, lane(0)),
            "cudaMemcpyAsync");
    }
    messenger.tell(use.slot, slots->freed(use.slot), use.mark, lane(0));
  }
}

void PeerReceiver::State::get_coded(const Ticket& ticket, const Crossing& crossing,
                                    std::byte* target) {
  begin_lanes();
  const auto slabs = cut(crossing.bytes, options.slab_bytes);
  for (std::size_t part = 0; part < slabs.size(); ++part) {
    const Slab& slab = slabs[part];
    const auto use = slots->next();
    // Not begun before the sender's kernel has: then that needs nothing that this one holds.
    wait_for_value(lane(part), slots->stored(use.slot), use.mark);
    const Arrival arrival{slots->stored(use.slot), use.mark, slots->given_up(use.slot),
                          arrival_patience_ns(options.patience_s)};
    decode_blocks(*crossing.choice, {crossing.number, slab.first_block}, slots->entries(use.slot),
                  slots->payloads(use.slot), padded(slab.bytes), target + slab.begin, slab.bytes,
                  ticket.report().fault(part), options.sms, lane(part), arrival);
    messenger.tell(use.slot, slots->freed(use.slot), use.mark, lane(part));
  }
}

/// On the stream of the rescue, which may tell of faults from now on.
void PeerReceiver::State::clear_faults(const Ticket& ticket) {
  ticket.report().clear_faults(ticket.facts().parts, rescue.get());
  record(prepared, rescue.get());
  let_wait(lane(0), prepared);
}

void PeerReceiver::State::settle(Ticket& ticket) {
  join();
  ticket.report().bring_faults(ticket.facts().parts, lane(0));
  ticket.end(lane(0));
  ticket.settle_behind(lane(0));
}

/// Lets all go on that waits for a slot to be written.
void PeerReceiver::State::release(std::size_t slot) {
  write_value(rescue.get(), slots->given_up(slot), kGivenUpAll);
  write_value(rescue.get(), slots->stored(slot, RawChunk{{}, true}), slots->mark(slot));
  write_value(rescue.get(), slots->stored(slot), slots->mark(slot));
}

/// Where nothing else tells: an array that comes as it is has no checksums.
void PeerReceiver::State::tell_all_missing(const Ticket& ticket) const {
  for (std::size_t part = 0; part < ticket.facts().parts; ++part) {
    auto* fault = reinterpret_cast<unsigned int*>(ticket.report().fault(part));
    for (const auto [word, value] : {std::pair{2, 4U}, {1, 1U}, {0, 1U}})  // the last one counts
      write_value(rescue.get(), fault + word, value);
  }
}

PeerReceiver::PeerReceiver(int device, const ChannelOptions& options) {
  require_possible(options);
  state_ = std::make_unique<State>(device, options);
}

PeerReceiver::~PeerReceiver() {
  if (state_ && !state_->in_flight.all_end_within(state_->options.patience_s)) state_.release();
}

std::string PeerReceiver::handle() const {
  return state_->own.handle();
}

void PeerReceiver::attach(const std::string& sender) {
  State& state = *state_;
  state.others.emplace(state.device, PeerSlots::words_bytes(state.options), sender);
  state.slots.emplace(state.options, state.own.data(), state.others->data());
}

std::shared_ptr<Ticket> PeerReceiver::receive(std::byte* target, const Crossing& crossing,
                                              cudaStream_t stream) {
  if (crossing.choice) require_possible(*crossing.choice);
  if (crossing.choice && !is_aligned(target))
    throw Error("receive", 0, "bad values",
                "the array for the values does not begin at a multiple of 16 bytes; give one that "
                "does");
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.require_attached();
  const ScopedDevice scope(state.device);
  const auto ticket =
      state.open(crossing, "from another process to GPU " + std::to_string(state.device), false);
  state.carry(
      ticket, stream,
      [&] {
        state.clear_faults(*ticket);
        ticket->begin(state.lane(0));
        if (crossing.choice)
          state.get_coded(*ticket, crossing, target);
        else
          state.get_raw(*ticket, target);
      },
      [&] { state.settle(*ticket); });
  return ticket;
}

void PeerReceiver::load(const Choice& choice) {
  const ScopedDevice scope(state_->device);
  load_kernels(choice);
}

void PeerReceiver::detach() noexcept {
  state_->let_go();
}

void PeerReceiver::give_up() noexcept {
  State& state = *state_;
  try {
    const std::lock_guard lock(state.mutex);
    if (std::exchange(state.given_up, true) || !state.slots) return;
    const ScopedDevice scope(state.device);
    for (const auto& ticket : state.under_way)
      if (ticket->facts().bytes > 0 && !ticket->done()) state.tell_all_missing(*ticket);
    for (std::size_t slot = 0; slot < state.slots->slots(); ++slot) state.release(slot);
  } catch (const Error&) {  // this GPU has failed, too, and waits for nothing
  }
}

}  // namespace lanescope::compress
