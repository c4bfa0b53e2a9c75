#include "compress/host_channel.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "compress/encode_lanes.hpp"
#include "compress/in_flight.hpp"
#include "compress/page_copier.hpp"
#include "compress/slab_ring.hpp"
#include "compress/slabs.hpp"
#include "compress/stream_order.hpp"
#include "compress/table_pool.hpp"
#include "compress/update_lanes.hpp"

namespace lanescope::compress {

namespace {

constexpr std::size_t kSlabBytesAlone = 8 << 20;
constexpr std::size_t kMostPieceBytes = std::size_t{1} << 40;
constexpr const char* kNoMemory = "the GPU has no memory left";

std::string not_aligned(const std::byte* base) {
  return base == nullptr ? "the array is not aligned to 16 bytes"
                         : "the array or its base is not aligned to 16 bytes";
}

}  // namespace

struct HostChannel::State {
  State(int device, const HostChannelOptions& given);

  const ChannelOptions& options() const { return given.channel; }
  int encoding_sms(const Choice& choice) const {
    return options().sms > 0 ? options().sms : sms_that_fill(Via::host, choice);
  }
  /// Of an update so little crosses the link that all may decode it.
  int decoding_sms(const Choice& choice) const {
    return choice.difference != UpdateKind::none ? options().sms : encoding_sms(choice);
  }
  TransferFacts facts(const char* way, std::size_t bytes) const;
  void begin_in(cudaStream_t caller);
  void begin_out(Ticket& ticket);
  void end_out(Ticket& ticket);
  void encode(Ticket& ticket, const Parcel& parcel, const Values& values);
  void encode_pages(Ticket& ticket, const Parcel& parcel, std::span<const Page> pages);
  void copy_pages(Ticket& ticket, const Parcel& parcel, std::span<const Page> pages);
  void encode_update(Ticket& ticket, const Parcel& parcel, const std::byte* source,
                     const std::byte* base);
  void copy(Ticket& ticket, const Parcel& parcel, const std::byte* source);
  void copy_back(Ticket& ticket, const Parcel& parcel, std::byte* target);
  bool can_stage(Parcel& parcel);
  bool has_ring();
  void decode_mapped(Ticket& ticket, const Parcel& parcel, std::byte* target,
                     const std::byte* base);
  void decode_staged(Ticket& ticket, Parcel& parcel, std::byte* target, const std::byte* base);
  std::size_t mapped_slab_bytes(const Parcel& parcel) const;
  void put(const Ticket& ticket, const Parcel& parcel, const Slab& slab, std::size_t part,
           std::byte* target, const std::byte* base);
  void decode_chosen(Ticket& ticket, const Parcel& parcel, std::span<const std::uint32_t> blocks,
                     std::byte* target);
  template <typename Work>
  Offload offload_by(TransferFacts facts, std::unique_ptr<Report> report,
                     const std::optional<Choice>& choice, cudaStream_t caller, Join join,
                     Work work);
  template <typename Work>
  std::shared_ptr<Ticket> restore_some(const std::shared_ptr<Parcel>& parcel,
                                       const TransferFacts& moved, cudaStream_t caller, Work work);
  void settle(Ticket& ticket, const Stream& stream, cudaStream_t caller, Join join = Join::now);
  void settle_failed_restore(Ticket& ticket, cudaStream_t caller);

  std::mutex mutex;
  int gpu;
  HostChannelOptions given;
  EncodeLanes out;
  std::shared_ptr<Ticket> last_out;
  Stream copying, in;  // `in` has the priority of the lanes
  Event caller_ready, ended;
  std::optional<SlabRing> ring;
  bool no_memory = false;  // for it
  UpdateLanes taking, putting;
  std::shared_ptr<PinnedArena> arena;
  ReportPool reports;
  InFlight in_flight;
  TablePool tables;
  std::uint64_t last_number = first_number();  // of an offload
  std::uint64_t next_number() { return last_number = number_after(last_number); }
};

HostChannel::State::State(int device, const HostChannelOptions& options)
    : gpu(device),
      given(options),
      out(gpu),
      copying(gpu),
      in(gpu, Priority::highest),
      caller_ready(event_on(gpu, Timing::none)),
      ended(event_on(gpu, Timing::none)),
      taking(gpu, 1, bytes_kept_on(sms_of(gpu, options.channel))),
      putting(gpu, 1, kUpdateSlabs * options.channel.slab_bytes),
      arena(std::make_shared<PinnedArena>(RangeArena::rounded(options.piece_bytes))),
      reports(gpu, gpu),
      in_flight(reports),
      tables(gpu) {}

TransferFacts HostChannel::State::facts(const char* way, std::size_t bytes) const {
  TransferFacts facts;
  facts.route = way + std::to_string(gpu);
  facts.bytes = facts.wire_bytes = bytes;
  facts.part_blocks = options().slab_bytes / kBlockBytes;
  facts.parts = 1;
  return facts;
}

void HostChannel::State::begin_in(cudaStream_t caller) {
  record(caller_ready, caller);
  let_wait(in.get(), caller_ready);
  let_wait(copying.get(), caller_ready);
}

/// What is put on the stream of `out` from now on leaves the GPU.
void HostChannel::State::begin_out(Ticket& ticket) {
  out.begin(caller_ready);
  ticket.begin(out.stream());
}

void HostChannel::State::end_out(Ticket& ticket) {
  ticket.end(out.stream());
  if (ticket.facts().encodes)
    ticket.report().bring_used(ticket.facts().reported_parts(), out.stream());
}

void HostChannel::State::copy(Ticket& ticket, const Parcel& parcel, const std::byte* source) {
  begin_out(ticket);
  check(cudaMemcpyAsync(parcel.payloads(), source, parcel.bytes_, cudaMemcpyDeviceToHost,
                        out.stream()),
        "cudaMemcpyAsync");
  end_out(ticket);
}

void HostChannel::State::copy_back(Ticket& ticket, const Parcel& parcel, std::byte* target) {
  ticket.begin(copying.get());
  check(cudaMemcpyAsync(target, parcel.payloads(), parcel.bytes_, cudaMemcpyHostToDevice,
                        copying.get()),
        "cudaMemcpyAsync");
  ticket.end(copying.get());
}

void HostChannel::State::encode(Ticket& ticket, const Parcel& parcel, const Values& values) {
  const Report& report = ticket.report();
  report.clear_used(1, out.stream());
  begin_out(ticket);
  Sink sink{parcel.entries(), parcel.payloads(), parcel.room_, report.used(0), kApartToHost};
  sink.binding = {parcel.number_};
  sink.progress = out.progress();
  encode_blocks(*parcel.choice_, values, parcel.bytes_, sink, encoding_sms(*parcel.choice_),
                out.stream());
  out.note_launch();
  end_out(ticket);
}

/// Its kernel reads blocks where the pages lie.
void HostChannel::State::encode_pages(Ticket& ticket, const Parcel& parcel,
                                      std::span<const Page> pages) {
  std::vector<const std::byte*> places;
  places.reserve(parcel.blocks());
  for (const Page& page : pages)
    for (std::size_t begin = 0; begin < page.bytes; begin += kBlockBytes)
      places.push_back(page.data + begin);
  const auto bytes = std::as_bytes(std::span(places));
  tables.with(bytes, out.stream(), [&](const std::byte* table) {
    encode(ticket, parcel, {places.front(), reinterpret_cast<const std::byte* const*>(table)});
  });
}

/// A kernel stores them to the host as they are.
void HostChannel::State::copy_pages(Ticket& ticket, const Parcel& parcel,
                                    std::span<const Page> pages) {
  std::vector<PagePart> parts;
  parts.reserve(pages.size());
  std::byte* to = parcel.payloads();
  for (const Page& page : pages) {
    const std::size_t whole = padded(page.bytes);
    cut_page({page.data, to, page.bytes, static_cast<std::uint32_t>(whole - page.bytes)}, parts);
    to += whole;
  }
  const auto bytes = std::as_bytes(std::span<const PagePart>(parts));
  tables.with(bytes, out.stream(), [&](const std::byte* table) {
    begin_out(ticket);
    launch_copy_parts(reinterpret_cast<const PagePart*>(table), parts.size(), kPageCtasToHost,
                      out.stream());
    end_out(ticket);
  });
}

/// Its kernel takes differences as it reads values; before, the sum of the base is found.
void HostChannel::State::encode_update(Ticket& ticket, const Parcel& parcel,
                                       const std::byte* source, const std::byte* base) {
  const Report& report = ticket.report();
  const cudaStream_t stream = out.stream();
  report.clear_used(2, stream);
  begin_out(ticket);
  sum_base(base, parcel.bytes_, report.used(1), stream);
  Sink sink{parcel.entries(), parcel.payloads(), parcel.room_, report.used(0), kApartToHost};
  sink.binding = {parcel.number_};
  sink.taken = {base, differing_of(*parcel.choice_), nullptr, taking.room(0)};
  encode_blocks(*parcel.choice_, source, parcel.bytes_, sink, encoding_sms(*parcel.choice_),
                stream);
  end_out(ticket);
}

/// Slabs of a parcel of another channel may be larger than the ring has room for.
bool HostChannel::State::can_stage(Parcel& parcel) {
  const std::size_t most = options().slab_bytes * (parcel.is_update() ? kUpdateSlabs : 1);
  if (given.restore_by != RestoreBy::staged || parcel.slab_bytes() > most) return false;
  if (!has_ring()) return false;
  const std::size_t largest = ring->most_piece_bytes();
  return largest_of(parcel.pieces(largest)) <= largest;
}

/// Asked for once: what failed would fail again, and cost time.
bool HostChannel::State::has_ring() {
  if (ring || no_memory) return !no_memory;
  try {
    ring.emplace(gpu, options(), kUpdateSlabs * options().slab_bytes);
  } catch (const Error& error) {
    no_memory = error.code() == cudaErrorMemoryAllocation;
    if (!no_memory) throw;
  }
  return !no_memory;
}

/// An array is one slab to kernels that read it where it lies, but for an update, whose differences
/// have to have room.
std::size_t HostChannel::State::mapped_slab_bytes(const Parcel& parcel) const {
  return parcel.is_update() ? std::min(parcel.slab_bytes_, putting.lane_bytes())
                            : blocks_of(parcel.bytes_) * kBlockBytes;
}

/// Puts the differences of a slab, which were decoded, onto the base.
void HostChannel::State::put(const Ticket& ticket, const Parcel& parcel, const Slab& slab,
                             std::size_t part, std::byte* target, const std::byte* base) {
  const Report& report = ticket.report();
  putting.put(
      0, *parcel.choice_, base + slab.begin, target + slab.begin, slab.bytes, report.fault(part),
      {report.held_sum(), nullptr, parcel.base_sum_, report.fault(ticket.facts().parts)}, in.get());
}

void HostChannel::State::decode_mapped(Ticket& ticket, const Parcel& parcel, std::byte* target,
                                       const std::byte* base) {
  const Report& report = ticket.report();
  report.clear_faults(ticket.facts().reported_parts(), in.get());
  ticket.begin(in.get());
  if (parcel.is_update()) sum_base(base, parcel.bytes_, report.held_sum(), in.get());
  const auto slabs = cut(parcel.bytes_, mapped_slab_bytes(parcel));
  for (std::size_t part = 0; part < slabs.size(); ++part) {
    const Slab& slab = slabs[part];
    decode_blocks(*parcel.choice_, {parcel.number_, slab.first_block},
                  parcel.entries() + slab.first_block, parcel.payloads(), parcel.room_,
                  parcel.is_update() ? putting.room(0) : target + slab.begin, slab.bytes,
                  report.fault(part), decoding_sms(*parcel.choice_), in.get());
    if (parcel.is_update()) put(ticket, parcel, slab, part, target, base);
  }
  ticket.end(in.get());
  report.bring_faults(ticket.facts().reported_parts(), in.get());
}

void HostChannel::State::decode_staged(Ticket& ticket, Parcel& parcel, std::byte* target,
                                       const std::byte* base) {
  const Report& report = ticket.report();
  report.clear_faults(ticket.facts().reported_parts(), in.get());
  // Not behind `in`, where what came before is still decoded: the link would be idle meanwhile.
  ticket.begin(copying.get());
  if (parcel.is_update()) sum_base(base, parcel.bytes_, report.held_sum(), in.get());
  const auto slabs = cut(parcel.bytes_, parcel.slab_bytes_);
  const StoredSlabs stored{slabs, parcel.pieces_, parcel.rebased(), parcel.payloads()};
  for (std::size_t part = 0; part < slabs.size(); ++part) {
    const Slab& slab = slabs[part];
    const SlabRing::Staged staged = ring->bring(stored, part, copying.get(), in.get());
    decode_blocks(*parcel.choice_, {parcel.number_, slab.first_block}, staged.entries,
                  staged.payloads, staged.bytes,
                  parcel.is_update() ? putting.room(0) : target + slab.begin, slab.bytes,
                  report.fault(part), decoding_sms(*parcel.choice_), in.get());
    if (parcel.is_update()) put(ticket, parcel, slab, part, target, base);
    ring->release(in.get());
  }
  ticket.end(in.get());
  report.bring_faults(ticket.facts().reported_parts(), in.get());
}

void HostChannel::State::settle(Ticket& ticket, const Stream& stream, cudaStream_t caller,
                                Join join) {
  try {
    record(ended, stream.get());
    ticket.settle_behind(stream.get());
  } catch (const Error& error) {
    ticket.fail(error);
    throw;
  }
  if (join == Join::now) let_wait(caller, ended);
}

/// Events of slots may not be recorded: all that is on either stream comes before what comes next.
void HostChannel::State::settle_failed_restore(Ticket& ticket, cudaStream_t caller) {
  try {
    record(ended, copying.get());
    let_wait(in.get(), ended);
  } catch (const Error& error) {
    ticket.fail(error);
    throw;
  }
  settle(ticket, in, caller);
  let_wait(copying.get(), ended);
}

/// A kernel reads the chosen blocks where they lie on the host.
void HostChannel::State::decode_chosen(Ticket& ticket, const Parcel& parcel,
                                       std::span<const std::uint32_t> blocks, std::byte* target) {
  const Report& report = ticket.report();
  report.clear_faults(1, in.get());
  tables.with(std::as_bytes(blocks), in.get(), [&](const std::byte* table) {
    const Chosen chosen{reinterpret_cast<const std::uint32_t*>(table), blocks.size()};
    decode_chosen_blocks(*parcel.choice_, {parcel.number_}, parcel.entries(), parcel.payloads(),
                         parcel.room_, target, parcel.bytes_, chosen, report.fault(0),
                         decoding_sms(*parcel.choice_), in.get());
  });
  report.bring_faults(1, in.get());
}

/// Compressed where there is something to report to; `work` puts on `out()` what takes the bytes.
template <typename Work>
HostChannel::Offload HostChannel::State::offload_by(TransferFacts facts,
                                                    std::unique_ptr<Report> report,
                                                    const std::optional<Choice>& choice,
                                                    cudaStream_t caller, Join join, Work work) {
  facts.compressed = facts.encodes = report != nullptr;
  facts.is_update = facts.is_update && facts.compressed;
  const std::size_t bytes = facts.bytes;
  const std::size_t slab_bytes = options().slab_bytes * (facts.is_update ? kUpdateSlabs : 1);
  const auto parcel = std::make_shared<Parcel>(
      arena, bytes, slab_bytes, facts.compressed ? choice : std::optional<Choice>(), next_number());
  const auto memory = parcel->memory();
  const auto ticket = std::make_shared<Ticket>(std::move(facts), gpu, std::move(report));
  parcel->offload_ = ticket;
  parcel->patience_s_ = options().patience_s;
  if (bytes == 0) {
    ticket->settle_now();
    return {parcel, ticket};
  }
  // Its memory stays until then, whatever becomes of the parcel.
  ticket->when_done([parcel, memory](std::span<const unsigned long long> used) {
    if (!used.empty()) parcel->shrink(bytes_used(used[0]));
    if (used.size() > 1) parcel->base_sum_ = used[1];
  });
  in_flight.add(ticket);
  const ScopedDevice scope(gpu);
  try {
    // Updates share what their kernels keep.
    if (out.choose(parcel->choice_ && !parcel->is_update())) Ticket::follow(ticket, last_out);
    last_out = ticket;
    record(caller_ready, caller);
    work(*ticket, *parcel);
  } catch (const Error&) {
    settle(*ticket, out.current(), caller);
    throw;
  }
  settle(*ticket, out.current(), caller, join);
  return {parcel, ticket};
}

/// As `restore` does; `work` puts on `in` what brings the bytes.
template <typename Work>
std::shared_ptr<Ticket> HostChannel::State::restore_some(const std::shared_ptr<Parcel>& parcel,
                                                         const TransferFacts& moved,
                                                         cudaStream_t caller, Work work) {
  const auto memory = parcel->memory();
  const std::lock_guard lock(mutex);
  in_flight.reap();
  TransferFacts its = facts("from the host to GPU ", moved.bytes);
  its.wire_bytes = moved.wire_bytes;
  its.compressed = its.decodes = moved.decodes;
  std::unique_ptr<Report> report = its.decodes ? reports.lend(1) : nullptr;
  if (its.decodes && !report)
    throw Error("restore", cudaErrorMemoryAllocation, "no memory", kNoMemory);
  const auto ticket = std::make_shared<Ticket>(std::move(its), gpu, std::move(report));
  if (moved.wire_bytes == 0) {
    ticket->settle_now();
    return ticket;
  }
  ticket->when_done([parcel, memory](std::span<const unsigned long long>) {});
  in_flight.add(ticket);
  const ScopedDevice scope(gpu);
  try {
    begin_in(caller);
    ticket->begin(in.get());
    work(*ticket);
    ticket->end(in.get());
  } catch (const Error&) {
    settle(*ticket, in, caller);
    throw;
  }
  settle(*ticket, in, caller);
  return ticket;
}

HostChannel::HostChannel(int gpu, const HostChannelOptions& options) {
  require_possible(options.channel);
  if (options.piece_bytes == 0 || options.piece_bytes > kMostPieceBytes)
    throw Error("channel", 0, "bad options", "pinned memory does not grow by so many bytes");
  state_ = std::make_unique<State>(gpu, options);
}

HostChannel::~HostChannel() {
  // Memory that kernels may still write to is lost rather than given to somebody else.
  if (state_ && !state_->in_flight.all_end_within(state_->options().patience_s)) state_.release();
}

HostChannel::Offload HostChannel::offload(const std::byte* source, std::size_t bytes,
                                          const std::optional<Choice>& choice,
                                          cudaStream_t source_stream, const std::byte* base,
                                          Join join) {
  if (choice) require_possible(*choice, base, nullptr, bytes);
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.in_flight.reap();
  TransferFacts facts = state.facts("to the host from GPU ", bytes);
  std::unique_ptr<Report> report;
  if (choice && bytes > 0) {
    facts.is_update = base != nullptr;
    const bool aligned = is_aligned(source) && is_aligned(base);
    if (aligned && (base == nullptr || state.taking.are_ready(keeps_blocks(*choice))))
      report = state.reports.lend(facts.reported_parts());
    if (!report) facts.why_raw = aligned ? kNoMemory : not_aligned(base);
  }
  return state.offload_by(std::move(facts), std::move(report), choice, source_stream, join,
                          [&](Ticket& ticket, const Parcel& parcel) {
                            if (parcel.is_update())
                              state.encode_update(ticket, parcel, source, base);
                            else if (parcel.choice_)
                              state.encode(ticket, parcel, source);
                            else
                              state.copy(ticket, parcel, source);
                          });
}

HostChannel::Offload HostChannel::offload_pages(std::span<const Page> pages,
                                                const std::optional<Choice>& choice,
                                                cudaStream_t source_stream, Join join) {
  if (choice) require_possible(*choice);
  std::size_t bytes = 0;
  for (const Page& page : pages) {
    if (choice && !(page.bytes % kBlockBytes == 0 && is_aligned(page.data)))
      throw Error("offload", 0, "bad values",
                  "pages are compressed where they lie by whole blocks of 64 KiB");
    bytes += padded(page.bytes);
  }
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.in_flight.reap();
  TransferFacts facts = state.facts("to the host from GPU ", bytes);
  std::unique_ptr<Report> report;
  if (choice && bytes > 0) report = state.reports.lend(facts.reported_parts());
  if (choice && !report) facts.why_raw = kNoMemory;
  return state.offload_by(std::move(facts), std::move(report), choice, source_stream, join,
                          [&](Ticket& ticket, const Parcel& parcel) {
                            if (parcel.choice_)
                              state.encode_pages(ticket, parcel, pages);
                            else
                              state.copy_pages(ticket, parcel, pages);
                          });
}

std::shared_ptr<Ticket> HostChannel::restore(const std::shared_ptr<Parcel>& parcel,
                                             std::byte* target, cudaStream_t target_stream,
                                             const std::byte* base, Join join) {
  const std::size_t stored = parcel->stored_bytes();
  const auto memory = parcel->memory();
  if (parcel->choice_ && !(is_aligned(target) && is_aligned(base)))
    throw Error("restore", 0, "bad values", not_aligned(base));
  if (parcel->choice_) require_possible(*parcel->choice_, base, target, parcel->bytes_);
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.in_flight.reap();
  TransferFacts facts = state.facts("from the host to GPU ", parcel->bytes_);
  facts.wire_bytes = stored;
  facts.compressed = facts.decodes = parcel->choice_.has_value();
  // Behind others larger slabs keep the link busy; the first of one alone has to come before any is
  // decoded.
  const bool alone = state.in_flight.is_empty();
  const bool usual = state.options().slab_bytes == kToHost.slab_bytes;
  parcel->cut_into(alone && usual ? kSlabBytesAlone : ~std::size_t{0});
  const bool staged = facts.compressed && state.can_stage(*parcel);
  const std::size_t slab_bytes = staged ? parcel->slab_bytes_ : state.mapped_slab_bytes(*parcel);
  facts.part_blocks = slab_bytes / kBlockBytes;
  facts.is_update = parcel->is_update();
  facts.base_place = "GPU " + std::to_string(state.gpu);
  if (facts.compressed) facts.parts = (parcel->bytes_ + slab_bytes - 1) / slab_bytes;
  std::unique_ptr<Report> report;
  if (facts.compressed && (!facts.is_update || state.putting.are_ready(true)))
    report = state.reports.lend(facts.reported_parts());
  if (facts.compressed && !report)
    throw Error("restore", cudaErrorMemoryAllocation, "no memory", kNoMemory);
  const auto ticket = std::make_shared<Ticket>(std::move(facts), state.gpu, std::move(report));
  if (parcel->bytes_ == 0) {
    ticket->settle_now();
    return ticket;
  }
  ticket->when_done([parcel, memory](std::span<const unsigned long long>) {});
  state.in_flight.add(ticket);
  const ScopedDevice scope(state.gpu);
  try {
    state.begin_in(target_stream);
    if (staged)
      state.decode_staged(*ticket, *parcel, target, base);
    else if (parcel->choice_)
      state.decode_mapped(*ticket, *parcel, target, base);
    else
      state.copy_back(*ticket, *parcel, target);
  } catch (const Error&) {
    state.settle_failed_restore(*ticket, target_stream);
    throw;
  }
  state.settle(*ticket, parcel->choice_ ? state.in : state.copying, target_stream, join);
  return ticket;
}

void HostChannel::join(Ticket& ticket, cudaStream_t stream) {
  const ScopedDevice scope(state_->gpu);
  ticket.let_wait_for_it(stream);
}

std::shared_ptr<Ticket> HostChannel::restore_parts(const std::shared_ptr<Parcel>& parcel,
                                                   std::span<const ParcelPart> parts,
                                                   cudaStream_t target_stream) {
  parcel->stored_bytes();
  if (parcel->choice_)
    throw Error("restore", 0, "bad values", "the parcel is compressed; restore blocks of it");
  std::vector<PagePart> cut;
  for (const ParcelPart& one : parts) {
    require_part(one, parcel->bytes_);
    cut_page({parcel->payloads() + one.offset, one.target, one.bytes}, cut);
  }
  TransferFacts facts;
  facts.wire_bytes = facts.bytes = bytes_of_parts(cut);
  return state_->restore_some(parcel, facts, target_stream, [&](Ticket&) {
    copy_parts_behind(state_->tables, cut, kPageCtasToHost, state_->in.get());
  });
}

std::shared_ptr<Ticket> HostChannel::restore_blocks(const std::shared_ptr<Parcel>& parcel,
                                                    std::span<const std::uint32_t> blocks,
                                                    std::byte* target, cudaStream_t target_stream) {
  parcel->stored_bytes();
  const auto memory = parcel->memory();
  if (!parcel->choice_ || !is_aligned(target))
    throw Error("restore", 0, "bad values",
                "the parcel is not compressed, or the array is not aligned to 16 bytes");
  if (parcel->is_update())
    throw Error("restore", 0, "bad values", "the parcel holds differences; restore all of it");
  TransferFacts facts;
  facts.compressed = facts.decodes = true;
  for (const std::uint32_t block : blocks) {
    if (block >= parcel->blocks())
      throw Error("restore", 0, "bad values", "the parcel has fewer blocks than that");
    facts.wire_bytes += sizeof(Entry) + padded(parcel->entries()[block].descriptor.payload_bytes());
  }
  facts.bytes = parcel->bytes_;
  return state_->restore_some(parcel, facts, target_stream, [&](Ticket& ticket) {
    state_->decode_chosen(ticket, *parcel, blocks, target);
  });
}

std::shared_ptr<Parcel> HostChannel::load(std::span<const std::byte> front,
                                          std::size_t stream_bytes) {
  State& state = *state_;
  if (front.size() < sizeof(Header) || front.size() != front_length(front, stream_bytes))
    throw Error("load", 0, "bad stream", "it has another length before its payloads than it says");
  const auto parcel = std::make_shared<Parcel>(state.arena, state.options().slab_bytes,
                                               layout_of(front, stream_bytes), front);
  TransferFacts facts = state.facts("of a stream to the host of GPU ", parcel->bytes_);
  facts.wire_bytes = parcel->room_ + parcel->blocks() * sizeof(Entry);
  parcel->offload_ = std::make_shared<Ticket>(std::move(facts), state.gpu, nullptr);
  parcel->offload_->settle_now();
  return parcel;
}

std::size_t HostChannel::trim(std::size_t keep_bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->in_flight.reap();
  return state_->arena->trim(keep_bytes);
}

void HostChannel::prepare(std::size_t bytes) {
  state_->arena->prepare(Parcel::front_bytes(blocks_of(bytes)) + padded(bytes));
}

void HostChannel::load(const Choice& choice) {
  const ScopedDevice scope(state_->gpu);
  load_kernels(choice);
}

const PinnedArena& HostChannel::arena() const noexcept {
  return *state_->arena;
}

}  // namespace lanescope::compress
