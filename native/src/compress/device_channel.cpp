#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lanescope/compress/channel.hpp"
#include "lanescope/compress/device_kernels.hpp"
#include "lanescope/compress/in_flight.hpp"
#include "lanescope/compress/slabs.hpp"
#include "lanescope/compress/stream_order.hpp"
#include "lanescope/cuda_handles.hpp"
#include "lanescope/peer.hpp"

namespace lanescope::compress {

namespace {

constexpr int kMostSlots = 64;
constexpr int kMostLanes = 8;
constexpr std::size_t kMostSlabBytes = std::size_t{1} << 40;

std::string gpu(int device) {
  return "GPU " + std::to_string(device);
}

void require_reach(int from, int to) {
  if (from == to || (enable_peer(from, to) && enable_peer(to, from))) return;
  throw Error("DeviceChannel", 0, "no peer access",
              gpu(from) + " and " + gpu(to) +
                  " do not reach each other's memory; send over the host in place of it");
}

/// Room for a slab on the receiving device.
struct Slot {
  Slot(int from, int to, std::size_t slab_bytes)
      : memory(to, entry_bytes(slab_bytes) + slab_bytes),
        full(event_on(from, Timing::none)),
        free(event_on(to, Timing::none)),
        payload_begin(entry_bytes(slab_bytes)) {}

  static std::size_t entry_bytes(std::size_t slab_bytes) {
    return (blocks_in(slab_bytes) * sizeof(Entry) + 255) / 256 * 256;
  }
  Entry* entries() const { return static_cast<Entry*>(memory.data()); }
  std::byte* payloads() const { return static_cast<std::byte*>(memory.data()) + payload_begin; }

  DeviceMemory memory;
  Event full, free;
  std::size_t payload_begin;
};

bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % kPayloadAlignment == 0;
}

}  // namespace

void require_possible(const ChannelOptions& options) {
  const auto require = [](bool holds, const std::string& said) {
    if (!holds) throw Error("channel", 0, "bad options", said);
  };
  require(options.slab_bytes > 0 && options.slab_bytes % kBlockBytes == 0 &&
              options.slab_bytes <= kMostSlabBytes,
          "slabs of " + std::to_string(options.slab_bytes) +
              " bytes are not a multiple of 65536, or too long");
  require(options.slots >= 1 && options.slots <= kMostSlots,
          std::to_string(options.slots) + " slots are not 1 to " + std::to_string(kMostSlots));
  require(options.lanes >= 1 && options.lanes <= kMostLanes,
          std::to_string(options.lanes) + " lanes are not 1 to " + std::to_string(kMostLanes));
  require(options.sms >= 0, "the number of SMs is not 0 or more");
  require(options.patience_s >= 0, "the patience is not 0 s or more");
}

int sms_of(int device, const ChannelOptions& options) {
  int there = 0;
  check(cudaDeviceGetAttribute(&there, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return options.sms > 0 ? std::min(options.sms, there) : there;
}

struct DeviceChannel::State {
  State(int from_device, int to_device, const ChannelOptions& given);

  /// Why nothing can be compressed now; empty if it can.
  std::string hindrance(const void* source, const void* target);
  bool has_slots();
  std::shared_ptr<Ticket> open(TransferFacts facts, std::unique_ptr<Report> report);
  void begin_behind(cudaStream_t source_stream, cudaStream_t target_stream);
  void send_raw(Ticket& ticket, const std::byte* source, std::byte* target,
                cudaStream_t source_stream, cudaStream_t target_stream);
  void send_coded(Ticket& ticket, const Choice& choice, const std::byte* source, std::byte* target,
                  cudaStream_t source_stream, cudaStream_t target_stream);
  void prepare(Ticket& ticket);
  void send_slab(const Ticket& ticket, const Choice& choice, const Slab& slab, std::size_t part,
                 const std::byte* source, std::byte* target);
  void damage(const Slot& slot, const Slab& slab, cudaStream_t stream);
  void settle(Ticket& ticket, cudaStream_t source_stream, cudaStream_t target_stream);
  void settle_raw(Ticket& ticket, cudaStream_t source_stream, cudaStream_t target_stream);
  void settle_coded(Ticket& ticket, cudaStream_t source_stream, cudaStream_t target_stream);
  static void join(const std::vector<Stream>& lanes, const Event& event);

  std::mutex mutex;
  int from, to;
  ChannelOptions options;
  std::vector<Stream> encoding, decoding;
  Stream clock;  // of the sender, behind all else
  int lane_sms;  // That a slab may use: so several are coded side by side.
  // Recorded again and again: a stream waits for what an event meant when it was told to.
  Event source_ready, target_ready, encoding_ready, decoding_ready, encoded, decoded, brought;
  std::vector<Slot> slots;
  std::size_t next_slot = 0;
  bool no_memory = false;  // for slots
  ReportPool reports;
  InFlight in_flight;
  std::optional<std::size_t> damaged_block;
};

DeviceChannel::State::State(int from_device, int to_device, const ChannelOptions& given)
    : from(from_device),
      to(to_device),
      options(given),
      clock(from),
      lane_sms(std::max(
          1, std::min(sms_of(from, options), sms_of(to, options)) / std::max(1, options.lanes))),
      source_ready(event_on(from, Timing::none)),
      target_ready(event_on(to, Timing::none)),
      encoding_ready(event_on(from, Timing::none)),
      decoding_ready(event_on(to, Timing::none)),
      encoded(event_on(from, Timing::none)),
      decoded(event_on(to, Timing::none)),
      brought(event_on(to, Timing::none)),
      reports(from, to),
      in_flight(reports) {
  for (int lane = 0; lane < options.lanes; ++lane) {
    encoding.emplace_back(from);
    decoding.emplace_back(to);
  }
}

std::string DeviceChannel::State::hindrance(const void* source, const void* target) {
  if (!is_aligned(source) || !is_aligned(target)) return "an array is not aligned to 16 bytes";
  if (!has_slots())
    return gpu(to) + " has no memory for " + std::to_string(options.slots) + " slabs of " +
           std::to_string(options.slab_bytes) + " bytes";
  return {};
}

/// Asked for once: what failed would fail again, and cost time.
bool DeviceChannel::State::has_slots() {
  if (!slots.empty() || no_memory) return !no_memory;
  try {
    for (int i = 0; i < options.slots; ++i) slots.emplace_back(from, to, options.slab_bytes);
  } catch (const Error& error) {
    slots.clear();
    no_memory = error.code() == cudaErrorMemoryAllocation;
    if (!no_memory) throw;
  }
  return !no_memory;
}

std::shared_ptr<Ticket> DeviceChannel::State::open(TransferFacts facts,
                                                   std::unique_ptr<Report> report) {
  auto ticket = std::make_shared<Ticket>(std::move(facts), from, std::move(report));
  in_flight.add(ticket);
  return ticket;
}

/// The first lane of each side begins behind what the caller put on its streams.
void DeviceChannel::State::begin_behind(cudaStream_t source_stream, cudaStream_t target_stream) {
  {
    const ScopedDevice scope(to);
    record(target_ready, target_stream);
    let_wait(decoding[0].get(), target_ready);
  }
  const ScopedDevice scope(from);
  record(source_ready, source_stream);
  let_wait(encoding[0].get(), source_ready);
}

void DeviceChannel::State::send_raw(Ticket& ticket, const std::byte* source, std::byte* target,
                                    cudaStream_t source_stream, cudaStream_t target_stream) {
  begin_behind(source_stream, target_stream);
  const ScopedDevice scope(from);
  const cudaStream_t stream = encoding[0].get();
  let_wait(stream, target_ready);
  ticket.begin(stream);
  check(cudaMemcpyPeerAsync(target, to, source, from, ticket.facts().bytes, stream),
        "cudaMemcpyPeerAsync");
  ticket.end(stream);
}

/// Counters and faults are zero before the first slab, on every lane.
void DeviceChannel::State::prepare(Ticket& ticket) {
  const std::size_t parts = ticket.facts().parts;
  {
    const ScopedDevice scope(to);
    ticket.report().clear_faults(parts, decoding[0].get());
    record(decoding_ready, decoding[0].get());
    for (const Stream& lane : decoding) let_wait(lane.get(), decoding_ready);
  }
  const ScopedDevice scope(from);
  ticket.report().clear_used(parts, encoding[0].get());
  ticket.begin(encoding[0].get());
  record(encoding_ready, encoding[0].get());
  for (const Stream& lane : encoding) let_wait(lane.get(), encoding_ready);
}

void DeviceChannel::State::send_coded(Ticket& ticket, const Choice& choice, const std::byte* source,
                                      std::byte* target, cudaStream_t source_stream,
                                      cudaStream_t target_stream) {
  begin_behind(source_stream, target_stream);
  prepare(ticket);
  const auto slabs = cut(ticket.facts().bytes, options.slab_bytes);
  for (std::size_t part = 0; part < slabs.size(); ++part)
    send_slab(ticket, choice, slabs[part], part, source, target);
  damaged_block.reset();
}

void DeviceChannel::State::send_slab(const Ticket& ticket, const Choice& choice, const Slab& slab,
                                     std::size_t part, const std::byte* source, std::byte* target) {
  const Slot& slot = slots[next_slot];
  next_slot = (next_slot + 1) % slots.size();
  const auto lane = part % static_cast<std::size_t>(options.lanes);
  {
    const ScopedDevice scope(from);
    const cudaStream_t stream = encoding[lane].get();
    let_wait(stream, slot.free);
    const Sink sink{slot.entries(), slot.payloads(), padded(slab.bytes),
                    ticket.report().used(part)};
    encode_blocks(choice, source + slab.begin, slab.bytes, sink, lane_sms, stream);
    record(slot.full, stream);
  }
  const ScopedDevice scope(to);
  const cudaStream_t stream = decoding[lane].get();
  let_wait(stream, slot.full);
  damage(slot, slab, stream);
  decode_blocks(choice, slot.entries(), slot.payloads(), padded(slab.bytes), target + slab.begin,
                slab.bytes, ticket.report().fault(part), lane_sms, stream);
  record(slot.free, stream);
}

void DeviceChannel::State::damage(const Slot& slot, const Slab& slab, cudaStream_t stream) {
  if (!damaged_block || *damaged_block < slab.first_block) return;
  const std::size_t block = *damaged_block - slab.first_block;
  if (block >= slab.blocks) return;
  check(cudaMemsetAsync(&slot.entries()[block].descriptor.checksum, 0xA5,
                        sizeof(Descriptor::checksum), stream),
        "cudaMemsetAsync");
}

/// The first lane goes on when all have come so far, which the event tells too.
void DeviceChannel::State::join(const std::vector<Stream>& lanes, const Event& event) {
  for (std::size_t lane = 1; lane < lanes.size(); ++lane) {
    record(event, lanes[lane].get());
    let_wait(lanes[0].get(), event);
  }
  record(event, lanes[0].get());
}

/// The callers' streams go on behind a raw transfer, which is the sender's alone.
void DeviceChannel::State::settle_raw(Ticket& ticket, cudaStream_t source_stream,
                                      cudaStream_t target_stream) {
  const ScopedDevice scope(from);
  const cudaStream_t stream = encoding[0].get();
  record(encoded, stream);
  let_wait(source_stream, encoded);
  {
    const ScopedDevice other(to);
    let_wait(target_stream, encoded);
  }
  ticket.settle_behind(stream);
}

/// Also where not all could be put on the streams: what was shall end before its memory goes.
void DeviceChannel::State::settle_coded(Ticket& ticket, cudaStream_t source_stream,
                                        cudaStream_t target_stream) {
  const std::size_t parts = ticket.facts().parts;
  {
    const ScopedDevice scope(to);
    join(decoding, decoded);
    let_wait(target_stream, decoded);
    ticket.report().bring_faults(parts, decoding[0].get());
    record(brought, decoding[0].get());
  }
  const ScopedDevice scope(from);
  join(encoding, encoded);
  let_wait(source_stream, encoded);
  let_wait(clock.get(), encoded);
  let_wait(clock.get(), decoded);
  ticket.end(clock.get());
  ticket.report().bring_used(parts, clock.get());
  let_wait(clock.get(), brought);
  ticket.settle_behind(clock.get());
}

void DeviceChannel::State::settle(Ticket& ticket, cudaStream_t source_stream,
                                  cudaStream_t target_stream) {
  if (ticket.facts().compressed)
    settle_coded(ticket, source_stream, target_stream);
  else
    settle_raw(ticket, source_stream, target_stream);
}

DeviceChannel::DeviceChannel(int from, int to, const ChannelOptions& options) {
  require_possible(options);
  require_reach(from, to);
  state_ = std::make_unique<State>(from, to, options);
}

DeviceChannel::~DeviceChannel() {
  // Memory that kernels may still write to is lost rather than given to somebody else.
  if (state_ && !state_->in_flight.all_end_within(state_->options.patience_s)) state_.release();
}

std::shared_ptr<Ticket> DeviceChannel::send(const std::byte* source, std::byte* target,
                                            std::size_t bytes, const std::optional<Choice>& choice,
                                            cudaStream_t source_stream,
                                            cudaStream_t target_stream) {
  if (choice) require_possible(*choice);
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.in_flight.reap();
  TransferFacts facts;
  facts.route = "from " + gpu(state.from) + " to " + gpu(state.to);
  facts.bytes = facts.wire_bytes = bytes;
  facts.part_blocks = state.options.slab_bytes / kBlockBytes;
  facts.parts = (bytes + state.options.slab_bytes - 1) / state.options.slab_bytes;
  std::unique_ptr<Report> report;
  if (choice && bytes > 0) {
    facts.why_raw = state.hindrance(source, target);
    if (facts.why_raw.empty()) report = state.reports.lend(facts.parts);
    if (facts.why_raw.empty() && !report) facts.why_raw = "a GPU has no memory left";
  }
  facts.compressed = facts.encodes = facts.decodes = report != nullptr;
  const auto ticket = state.open(std::move(facts), std::move(report));
  if (bytes == 0) {
    ticket->settle_now();
    return ticket;
  }
  try {
    if (ticket->facts().compressed)
      state.send_coded(*ticket, *choice, source, target, source_stream, target_stream);
    else
      state.send_raw(*ticket, source, target, source_stream, target_stream);
  } catch (const Error&) {
    state.settle(*ticket, source_stream, target_stream);
    throw;
  }
  state.settle(*ticket, source_stream, target_stream);
  return ticket;
}

void DeviceChannel::damage_next(std::size_t block) {
  const std::lock_guard lock(state_->mutex);
  state_->damaged_block = block;
}

}  // namespace lanescope::compress
