#include "compress/peer_half.hpp"

namespace lanescope::compress {

struct PeerSender::State : PeerHalf {
  State(int gpu, const ChannelOptions& given)
      : PeerHalf(gpu, given, PeerSlots::words_bytes(given)),
        clock(gpu),
        taken(gpu, static_cast<std::size_t>(given.slots) * sizeof(unsigned int)),
        messenger(gpu, static_cast<std::size_t>(given.slots)) {
    zero(gpu, taken.data(), static_cast<std::size_t>(given.slots) * sizeof(unsigned int));
    const ScopedDevice scope(gpu);
    for (int slot = 0; slot < given.slots; ++slot) written.emplace_back(Timing::none);
  }

  unsigned int* taken_of(std::size_t slot) const {
    return static_cast<unsigned int*>(taken.data()) + slot;
  }

  void wait_for_slot(const PeerSlots::Use& use, cudaStream_t stream);
  void put_raw(Ticket& ticket, const std::byte* source);
  void put_coded(Ticket& ticket, const Crossing& crossing, const std::byte* source);
  void put_slab(const Ticket& ticket, const Crossing& crossing, const Slab& slab, std::size_t part,
                const std::byte* source);
  void settle(Ticket& ticket);

  Stream clock;  // behind all else, until the receiver has it
  DeviceMemory taken;
  Messenger messenger;
  std::vector<Event> written;  // of each slot: when nothing of its slab is written any more
};

/// Until a slot is free: when the receiver has read it, and the last kernel here has ended.
void PeerSender::State::wait_for_slot(const PeerSlots::Use& use, cudaStream_t stream) {
  wait_for_value(stream, slots->freed(use.slot), use.mark - 1);
  let_wait(stream, written[use.slot]);
}

void PeerSender::State::put_raw(Ticket& ticket, const std::byte* source) {
  ticket.begin(lane(0));
  begin_lanes();
  // Chunks cross one by one: the next one on the other lane, while the word of this one is set.
  std::size_t part = 0;
  const auto slabs = cut(ticket.facts().bytes, options.slab_bytes);
  for (const Slab& slab : slabs) {
    const auto use = slots->next();
    wait_for_slot(use, lane(part));
    for (const RawChunk& chunk : chunks_of(slab, &slab == &slabs.back(), options.slab_bytes)) {
      const cudaStream_t stream = lane(part++);
      const std::size_t begin = chunk.of_slab.begin;
      check(cudaMemcpyAsync(slots->payloads(use.slot) + begin, source + slab.begin + begin,
                            chunk.of_slab.bytes, cudaMemcpyDefault, stream),
            "cudaMemcpyAsync");
      record(prepared, stream);
      let_wait(lane(part), prepared);
      messenger.tell(use.slot, slots->stored(use.slot, chunk), use.mark, stream);
    }
    // No event of the slot: the receiver frees it when it has the last word from here.
  }
}

void PeerSender::State::put_coded(Ticket& ticket, const Crossing& crossing,
                                  const std::byte* source) {
  ticket.report().clear_used(ticket.facts().parts, lane(0));
  ticket.begin(lane(0));
  begin_lanes();
  const auto slabs = cut(crossing.bytes, options.slab_bytes);
  for (std::size_t part = 0; part < slabs.size(); ++part)
    put_slab(ticket, crossing, slabs[part], part, source);
}

void PeerSender::State::put_slab(const Ticket& ticket, const Crossing& crossing, const Slab& slab,
                                 std::size_t part, const std::byte* source) {
  const auto before = slots->last(1);
  const cudaStream_t stream = lane(part);
  const auto use = slots->next();
  wait_for_slot(use, stream);
  // One kernel begins when the one before has no block left, or both would share the SMs.
  if (part > 0) wait_for_value(stream, taken_of(before[0].slot), before[0].mark);
  const Sink sink{slots->entries(use.slot),
                  slots->payloads(use.slot),
                  padded(slab.bytes),
                  ticket.report().used(part),
                  kApartToPeer,
                  {slots->stored(use.slot), use.mark, taken_of(use.slot)},
                  {crossing.number, slab.first_block}};
  const int sms = options.sms > 0 ? options.sms : sms_that_fill(Via::peer, *crossing.choice);
  encode_blocks(*crossing.choice, source + slab.begin, slab.bytes, sink, sms, stream);
  record(written[use.slot], stream);
}

/// Its time is over when the receiver has given its last slots back.
void PeerSender::State::settle(Ticket& ticket) {
  join();
  let_wait(clock.get(), ended);
  for (const auto& use : slots->last(ticket.facts().parts))
    wait_for_value(clock.get(), slots->freed(use.slot), use.mark);
  ticket.end(clock.get());
  if (ticket.facts().encodes) ticket.report().bring_used(ticket.facts().parts, clock.get());
  ticket.settle_behind(clock.get());
}

PeerSender::PeerSender(int device, const ChannelOptions& options) {
  require_possible(options);
  state_ = std::make_unique<State>(device, options);
}

PeerSender::~PeerSender() {
  // Memory that others may still write to is lost rather than given to somebody else.
  if (state_ && !state_->in_flight.all_end_within(state_->options.patience_s)) state_.release();
}

std::string PeerSender::handle() const {
  return state_->own.handle();
}

void PeerSender::attach(const std::string& receiver) {
  State& state = *state_;
  state.others.emplace(state.device, PeerSlots::rooms_bytes(state.options), receiver);
  state.slots.emplace(state.options, state.others->data(), state.own.data());
}

std::string PeerSender::hindrance(const std::byte* source) const {
  return is_aligned(source) ? "" : "the array is not aligned to 16 bytes";
}

std::shared_ptr<Ticket> PeerSender::send(const std::byte* source, const Crossing& crossing,
                                         cudaStream_t stream) {
  if (crossing.choice) require_possible(*crossing.choice);
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.require_attached();
  const ScopedDevice scope(state.device);
  const auto ticket = state.open(
      crossing, "from GPU " + std::to_string(state.device) + " to another process", true);
  state.carry(
      ticket, stream,
      [&] {
        if (crossing.choice)
          state.put_coded(*ticket, crossing, source);
        else
          state.put_raw(*ticket, source);
      },
      [&] { state.settle(*ticket); });
  return ticket;
}

void PeerSender::load(const Choice& choice) {
  const ScopedDevice scope(state_->device);
  load_kernels(choice);
}

void PeerSender::detach() noexcept {
  state_->let_go();
}

void PeerSender::give_up() noexcept {
  State& state = *state_;
  try {
    const std::lock_guard lock(state.mutex);
    if (std::exchange(state.given_up, true) || !state.slots) return;
    const ScopedDevice scope(state.device);
    for (std::size_t slot = 0; slot < state.slots->slots(); ++slot)
      write_value(state.rescue.get(), state.slots->freed(slot), state.slots->mark(slot));
  } catch (const Error&) {  // this GPU has failed, too, and waits for nothing
  }
}

}  // namespace lanescope::compress
