#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "compress/channel.hpp"
#include "compress/device_kernels.hpp"
#include "compress/in_flight.hpp"
#include "compress/slabs.hpp"
#include "compress/stream_order.hpp"
#include "compress/update_lanes.hpp"
#include "cuda/cuda_handles.hpp"
#include "cuda/peer.hpp"
#include "cuda/stream_values.hpp"

namespace lanescope::compress {

namespace {

constexpr int kMostSlots = 64;
constexpr std::size_t kMostSlabBytes = std::size_t{1} << 38;
/// So many slabs are under way at a time: one is begun while the last blocks of another are coded.
constexpr int kSlabsAtOnce = 2;
/// Of an array that goes over the host as it is: one piece comes in while the next goes out.
constexpr std::size_t kRawPieceBytes = 4 << 20;

std::string gpu(int device) {
  return "GPU " + std::to_string(device);
}

void require_reach(int from, int to) {
  if (from == to || (enable_peer(from, to) && enable_peer(to, from))) return;
  throw Error("DeviceChannel", 0, "no peer access",
              gpu(from) + " and " + gpu(to) +
                  " do not reach each other's memory; let the channel go over the host's");
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
  require(options.sms >= 0, "the number of SMs is not 0 or more");
  require(options.patience_s >= 0, "the patience is not 0 s or more");
}

int sms_of(int device, const ChannelOptions& options) {
  int there = 0;
  check(cudaDeviceGetAttribute(&there, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return options.sms > 0 ? std::min(options.sms, there) : there;
}

int sms_that_fill(Via link, const Choice& choice) {
  const bool update = choice.difference != UpdateKind::none;
  if (link == Via::peer && (update || bytes_of(choice.dtype) == 8)) return kMostSmsOfPeer;
  if (link == Via::peer) return choice.codec == Codec::exponent ? 64 : kUsualSmsOfPeer;
  if (update) return kUsualSmsOfPeer;
  if (choice.codec == Codec::exponent || choice.codec == Codec::raw) return 16;
  return bytes_of(choice.dtype) == 8 ? kMostSmsOfHost : kUsualSmsOfHost;
}

struct DeviceChannel::State {
  State(int from_device, int to_device, const ChannelOptions& given, Via by);

  /// Why nothing can be compressed now; empty if it can.
  std::string hindrance(const void* source, const void* target, const void* base,
                        const Choice& choice);
  bool has_rooms();
  Room& next_room();
  void next_mark(Room& room);
  int encoding_sms(const Choice& choice) const;
  int decoding_sms(const Choice& choice) const;
  std::shared_ptr<Ticket> open(TransferFacts facts, std::unique_ptr<Report> report);
  void begin_behind(cudaStream_t source_stream, cudaStream_t target_stream);
  void send_raw(Ticket& ticket, const std::byte* source, std::byte* target,
                cudaStream_t source_stream, cudaStream_t target_stream);
  void send_raw_over_host(const std::byte* source, std::byte* target, std::size_t bytes);
  void send_coded(Ticket& ticket, const Choice& choice, const std::byte* source, std::byte* target,
                  cudaStream_t source_stream, cudaStream_t target_stream, const std::byte* base);
  void prepare(Ticket& ticket);
  void send_slab(const Ticket& ticket, const Choice& choice, const Slab& slab, std::size_t part,
                 const std::byte* source, std::byte* target, const std::byte* base);
  void damage(const Room& room, const Slab& slab, cudaStream_t encoder, cudaStream_t decoder);
  void give_up() noexcept;
  void settle(Ticket& ticket, cudaStream_t source_stream, cudaStream_t target_stream);
  void settle_raw(Ticket& ticket);
  void settle_coded(Ticket& ticket);
  static void join(const std::vector<Stream>& lanes, const Event& event);

  std::mutex mutex;
  int from, to;
  ChannelOptions options;
  Via via;
  std::vector<Stream> encoding, decoding;
  Stream clock;   // of the sender, behind all else
  Stream rescue;  // of the receiver, before all else
  // Recorded again and again: a stream waits for what an event meant when it was told to.
  Event source_ready, target_ready, encoding_ready, decoding_ready, encoded, decoded, brought;
  std::vector<Room> rooms;
  UpdateLanes taking, putting;  // what kernels of updates keep, of the sender and the receiver
  std::size_t room_turn = 0;
  std::mutex rooms_mutex;  // of those that make, mark, or give up
  bool no_memory = false;  // for rooms
  bool no_values = false;  // that streams would wait for
  ReportPool reports;
  InFlight in_flight;
  std::optional<std::size_t> damaged_block;
  std::uint64_t last_number = first_number();  // of an array
};

DeviceChannel::State::State(int from_device, int to_device, const ChannelOptions& given, Via by)
    : from(from_device),
      to(to_device),
      options(given),
      via(by),
      clock(from),
      rescue(to),
      source_ready(event_on(from, Timing::none)),
      target_ready(event_on(to, Timing::none)),
      encoding_ready(event_on(from, Timing::none)),
      decoding_ready(event_on(to, Timing::none)),
      encoded(event_on(from, Timing::none)),
      decoded(event_on(to, Timing::none)),
      brought(event_on(to, Timing::none)),
      taking(from, kSlabsAtOnce, bytes_kept_on(sms_of(from, given))),
      putting(to, kSlabsAtOnce, bytes_kept_on(sms_of(to, given))),
      reports(from, to),
      in_flight(reports) {
  for (int lane = 0; lane < kSlabsAtOnce; ++lane) {
    encoding.emplace_back(from);
    decoding.emplace_back(to);
  }
}

std::string DeviceChannel::State::hindrance(const void* source, const void* target,
                                            const void* base, const Choice& choice) {
  if (!is_aligned(source) || !is_aligned(target) || !is_aligned(base))
    return "an array is not aligned to 16 bytes";
  const bool room = has_rooms();
  if (no_values) return "the driver lets no stream wait for what kernels write";
  if (!room)
    return (via == Via::host ? "the host" : gpu(to)) + " has no memory for " +
           std::to_string(options.slots) + " slabs of " + std::to_string(options.slab_bytes) +
           " bytes";
  for (UpdateLanes* lanes : {&taking, &putting})
    if (base != nullptr && !lanes->are_ready(keeps_blocks(choice)))
      return gpu(lanes->device()) + " has no memory for the differences of an update";
  return {};
}

/// Asked for once: what failed would fail again, and cost time.
bool DeviceChannel::State::has_rooms() {
  if (!rooms.empty() || no_memory) return !no_memory;
  const std::lock_guard lock(rooms_mutex);
  try {
    for (int i = 0; i < options.slots; ++i) rooms.emplace_back(from, to, options.slab_bytes, via);
    const ScopedDevice scope(to);
    no_values = !streams_take_values(rescue.get(), rooms[0].stored());
  } catch (const Error& error) {
    rooms.clear();
    no_memory = error.code() == cudaErrorMemoryAllocation;
    if (!no_memory) throw;
  }
  return !no_memory;
}

Room& DeviceChannel::State::next_room() {
  return rooms[room_turn++ % rooms.size()];
}

void DeviceChannel::State::next_mark(Room& room) {
  const std::lock_guard lock(rooms_mutex);
  room.next();
}

int DeviceChannel::State::encoding_sms(const Choice& choice) const {
  return options.sms > 0 ? options.sms : sms_that_fill(via, choice);
}

/// All may decode what comes over NVLink, and updates; over PCIe a few are enough.
int DeviceChannel::State::decoding_sms(const Choice& choice) const {
  const bool all = via == Via::peer || choice.difference != UpdateKind::none;
  return options.sms > 0 || all ? options.sms : sms_that_fill(via, choice);
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
  const bool by_rooms = via == Via::host && has_rooms();
  begin_behind(source_stream, target_stream);
  const ScopedDevice scope(from);
  const cudaStream_t stream = encoding[0].get();
  let_wait(stream, target_ready);
  ticket.begin(stream);
  if (by_rooms)
    send_raw_over_host(source, target, ticket.facts().bytes);
  else
    check(cudaMemcpyPeerAsync(target, to, source, from, ticket.facts().bytes, stream),
          "cudaMemcpyPeerAsync");
  ticket.end(stream);
}

/// In pieces, of which one comes in while the next goes out.
void DeviceChannel::State::send_raw_over_host(const std::byte* source, std::byte* target,
                                              std::size_t bytes) {
  const cudaStream_t out = encoding[0].get(), in = decoding[0].get();
  for (const Slab& slab : cut(bytes, options.slab_bytes)) {
    const Room& room = next_room();
    let_wait(out, room.free);
    for (std::size_t at = 0; at < slab.bytes; at += kRawPieceBytes) {
      const std::size_t size = std::min(kRawPieceBytes, slab.bytes - at);
      check(cudaMemcpyAsync(room.payloads() + at, source + slab.begin + at, size,
                            cudaMemcpyDeviceToHost, out),
            "cudaMemcpyAsync");
      record(encoded, out);
      const ScopedDevice scope(to);
      let_wait(in, encoded);
      check(cudaMemcpyAsync(target + slab.begin + at, room.payloads() + at, size,
                            cudaMemcpyHostToDevice, in),
            "cudaMemcpyAsync");
    }
    const ScopedDevice scope(to);
    record(room.free, in);
  }
  {
    const ScopedDevice scope(to);
    record(decoded, in);
  }
  let_wait(out, decoded);
}

/// Counters and faults are zero before the first slab, on every lane.
void DeviceChannel::State::prepare(Ticket& ticket) {
  const std::size_t parts = ticket.facts().reported_parts();
  const Report& report = ticket.report();
  {
    const ScopedDevice scope(to);
    report.clear_faults(parts, decoding[0].get());
    record(decoding_ready, decoding[0].get());
    for (const Stream& lane : decoding) let_wait(lane.get(), decoding_ready);
  }
  const ScopedDevice scope(from);
  report.clear_used(parts, encoding[0].get());
  ticket.begin(encoding[0].get());
  record(encoding_ready, encoding[0].get());
  for (const Stream& lane : encoding) let_wait(lane.get(), encoding_ready);
}

void DeviceChannel::State::send_coded(Ticket& ticket, const Choice& choice, const std::byte* source,
                                      std::byte* target, cudaStream_t source_stream,
                                      cudaStream_t target_stream, const std::byte* base) {
  begin_behind(source_stream, target_stream);
  prepare(ticket);
  ++last_number;
  const auto slabs = cut(ticket.facts().bytes, options.slab_bytes);
  for (std::size_t part = 0; part < slabs.size(); ++part)
    send_slab(ticket, choice, slabs[part], part, source, target, base);
  damaged_block.reset();
}

void DeviceChannel::State::send_slab(const Ticket& ticket, const Choice& choice, const Slab& slab,
                                     std::size_t part, const std::byte* source, std::byte* target,
                                     const std::byte* base) {
  const unsigned int before = part > 0 ? rooms[(room_turn - 1) % rooms.size()].mark() : 0;
  const unsigned int* taken = part > 0 ? rooms[(room_turn - 1) % rooms.size()].taken() : nullptr;
  Room& room = next_room();
  const std::size_t lane = part % kSlabsAtOnce, parts = ticket.facts().parts;
  const Report& report = ticket.report();
  const Binding binding{last_number, slab.first_block};
  const cudaStream_t encoder = encoding[lane].get();
  const cudaStream_t decoder = decoding[lane].get();
  const Differing differing = base != nullptr ? differing_of(choice) : Differing{};
  {
    const ScopedDevice scope(from);
    let_wait(encoder, room.free);
    let_wait(encoder, room.written);
    if (taken != nullptr) wait_for_value(encoder, taken, before);
    next_mark(room);
    Sink sink{room.entries(),
              room.payloads(),
              padded(slab.bytes),
              report.used(part),
              via == Via::peer ? kApartToPeer : kApartToHost,
              room.progress(),
              binding};
    if (base != nullptr)
      sink.taken = {base + slab.begin, differing, room.base_sums(), taking.room(lane)};
    encode_blocks(choice, source + slab.begin, slab.bytes, sink, encoding_sms(choice), encoder);
    record(room.written, encoder);
  }
  const ScopedDevice scope(to);
  wait_for_value(decoder, room.stored(), room.mark());
  damage(room, slab, encoder, decoder);
  std::byte* out = target + slab.begin;
  const std::size_t payload_room = padded(slab.bytes);
  const Arrival arrival = room.arrival(options.patience_s);
  if (base != nullptr)
    decode_onto_base(choice, binding, room.entries(), room.payloads(), payload_room,
                     {out, differing, room.base_sums(), putting.room(lane), report.fault(parts)},
                     out, slab.bytes, report.fault(part), decoding_sms(choice), decoder, arrival);
  else
    decode_blocks(choice, binding, room.entries(), room.payloads(), payload_room, out, slab.bytes,
                  report.fault(part), decoding_sms(choice), decoder, arrival);
  record(room.free, decoder);
}

/// When the slab is encoded, and before it is decoded.
void DeviceChannel::State::damage(const Room& room, const Slab& slab, cudaStream_t encoder,
                                  cudaStream_t decoder) {
  if (!damaged_block || *damaged_block < slab.first_block) return;
  const std::size_t block = *damaged_block - slab.first_block;
  if (block >= slab.blocks) return;
  {
    const ScopedDevice scope(from);
    record(encoded, encoder);
  }
  let_wait(decoder, encoded);
  check(cudaMemsetAsync(&room.entries()[block].descriptor.checksum, 0xA5,
                        sizeof(Descriptor::checksum), decoder),
        "cudaMemsetAsync");
}

/// Where the sender has failed, so that the receiver does not wait for what never comes.
void DeviceChannel::State::give_up() noexcept {
  try {
    const std::lock_guard lock(rooms_mutex);
    const ScopedDevice scope(to);
    for (const Room& room : rooms) {
      write_value(rescue.get(), room.given_up(), kGivenUpAll);
      write_value(rescue.get(), room.stored(), room.mark());
    }
  } catch (const Error&) {  // the receiver has failed, too, and waits for nothing
  }
}

/// The first lane goes on when all have come so far, which the event tells too.
void DeviceChannel::State::join(const std::vector<Stream>& lanes, const Event& event) {
  for (std::size_t lane = 1; lane < lanes.size(); ++lane) {
    record(event, lanes[lane].get());
    let_wait(lanes[0].get(), event);
  }
  record(event, lanes[0].get());
}

/// A raw transfer is the sender's alone.
void DeviceChannel::State::settle_raw(Ticket& ticket) {
  if (via == Via::host) {  // also where not all of its copies could be put on the streams
    const ScopedDevice scope(to);
    record(decoded, decoding[0].get());
  }
  const ScopedDevice scope(from);
  const cudaStream_t stream = encoding[0].get();
  if (via == Via::host) let_wait(stream, decoded);
  record(encoded, stream);
  ticket.settle_behind(stream);
}

/// Also where not all could be put on the streams: what was shall end before its memory goes.
void DeviceChannel::State::settle_coded(Ticket& ticket) {
  const std::size_t parts = ticket.facts().reported_parts();
  {
    const ScopedDevice scope(to);
    join(decoding, decoded);
    ticket.report().bring_faults(parts, decoding[0].get());
    record(brought, decoding[0].get());
  }
  const ScopedDevice scope(from);
  join(encoding, encoded);
  let_wait(clock.get(), encoded);
  let_wait(clock.get(), decoded);
  ticket.end(clock.get());
  ticket.report().bring_used(parts, clock.get());
  let_wait(clock.get(), brought);
  ticket.settle_behind(clock.get());
}

void DeviceChannel::State::settle(Ticket& ticket, cudaStream_t source_stream,
                                  cudaStream_t target_stream) {
  std::optional<Error> wrong;
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (const Error& error) {
      if (!wrong) wrong = error;
    }
  };
  const bool coded = ticket.facts().compressed;
  attempt([&] { coded ? settle_coded(ticket) : settle_raw(ticket); });
  if (wrong) ticket.fail(*wrong);
  // The callers' streams are theirs: what is wrong with one keeps neither a ticket from its end nor
  // the other from its place behind what uses its array.
  attempt([&] {
    const ScopedDevice scope(to);
    let_wait(target_stream, coded || via == Via::host ? decoded : encoded);
  });
  attempt([&] {
    const ScopedDevice scope(from);
    let_wait(source_stream, encoded);
  });
  if (!wrong) return;
  attempt([&] { ticket.done(); });  // a look, which releases the receiver where the sender failed
  throw *wrong;
}

DeviceChannel::DeviceChannel(int from, int to, const ChannelOptions& options, Via via) {
  require_possible(options);
  if (via == Via::peer) require_reach(from, to);
  state_ = std::make_unique<State>(from, to, options, via);
}

DeviceChannel::~DeviceChannel() {
  // Memory that kernels may still write to is lost rather than given to somebody else.
  if (state_ && !state_->in_flight.all_end_within(state_->options.patience_s)) state_.release();
}

std::shared_ptr<Ticket> DeviceChannel::send(const std::byte* source, std::byte* target,
                                            std::size_t bytes, const std::optional<Choice>& choice,
                                            cudaStream_t source_stream, cudaStream_t target_stream,
                                            const std::byte* base) {
  if (choice) require_possible(*choice, base, target, bytes);
  if (overlap({source, bytes}, {target, bytes}))
    throw Error("send", 0, "bad values",
                "the array and the one for its values overlap; give another one");
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.in_flight.reap();
  TransferFacts facts;
  facts.route = "from " + gpu(state.from) + " to " + gpu(state.to);
  if (state.via == Via::host) facts.route += " over the host";
  facts.bytes = facts.wire_bytes = bytes;
  facts.part_blocks = state.options.slab_bytes / kBlockBytes;
  facts.parts = (bytes + state.options.slab_bytes - 1) / state.options.slab_bytes;
  std::unique_ptr<Report> report;
  if (choice && bytes > 0) {
    facts.is_update = base != nullptr;
    facts.why_raw = state.hindrance(source, target, base, *choice);
    if (facts.why_raw.empty()) report = state.reports.lend(facts.reported_parts());
    if (facts.why_raw.empty() && !report) facts.why_raw = "a GPU has no memory left";
  }
  facts.compressed = facts.encodes = facts.decodes = report != nullptr;
  facts.is_update = facts.is_update && facts.compressed;
  facts.base_place = gpu(state.to);
  const auto ticket = state.open(std::move(facts), std::move(report));
  ticket->when_failed([&state] { state.give_up(); });
  if (bytes == 0) {
    ticket->settle_now();
    return ticket;
  }
  try {
    if (ticket->facts().compressed)
      state.send_coded(*ticket, *choice, source, target, source_stream, target_stream, base);
    else
      state.send_raw(*ticket, source, target, source_stream, target_stream);
  } catch (const Error&) {
    state.settle(*ticket, source_stream, target_stream);
    throw;
  }
  state.settle(*ticket, source_stream, target_stream);
  return ticket;
}

void DeviceChannel::load(const Choice& choice) {
  for (const int device : {state_->from, state_->to}) {
    const ScopedDevice scope(device);
    load_kernels(choice);
  }
}

void DeviceChannel::damage_next(std::size_t block) {
  const std::lock_guard lock(state_->mutex);
  state_->damaged_block = block;
}

}  // namespace lanescope::compress
