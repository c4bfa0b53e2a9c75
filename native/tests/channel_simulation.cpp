// Sends arrays through channels over a pretended CUDA runtime, whose streams go on in any order
// that events allow, with kernels that do the same for a simple codec, block by block. What comes
// out is compared, so that a wait that is missing, or memory that is used again too early, shows.
// It is built with the sanitizers. `make simulate` runs it.

#include <sanitizer/lsan_interface.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compress/channel.hpp"
#include "compress/checksum.hpp"
#include "compress/host_channel.hpp"
#include "compress/host_strips.hpp"
#include "compress/page_copier.hpp"
#include "compress/update_lanes.hpp"
#include "pretended_cuda.hpp"
#include "pretended_pages.hpp"
#include "pretended_updates.hpp"

namespace lanescope::compress {
namespace {

std::uint64_t now_seed = 0;

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(now_seed), what.c_str());
  std::exit(1);
}

/// Whether blocks are coded as streams have them: by `delta` of float32 where that makes them
/// smaller. Else as what they begin with, if zeros follow, which is sooner done.
bool as_in_streams = false;

/// How far blocks overtake each other, at most.
std::size_t most_overtaken = 40;

/// A payload and how it is stored.
std::pair<std::vector<std::byte>, BlockMode> payload_of(const std::byte* data, std::size_t bytes) {
  std::vector<std::byte> made(data, data + bytes);
  if (as_in_streams) {
    if (bytes % 4 != 0) return {made, BlockMode::raw};
    std::vector<std::byte> coded(kMostPayloadBytes);
    std::vector<std::uint64_t> aligned(bytes / 8 + 1);
    std::memcpy(aligned.data(), data, bytes);
    coded.resize(host_strips().encode({Codec::delta, Dtype::float32, 1},
                                      reinterpret_cast<const std::byte*>(aligned.data()), bytes,
                                      coded.data()));
    if (padded(coded.size()) < padded(bytes)) return {coded, BlockMode::coded};
    return {made, BlockMode::raw};
  }
  while (!made.empty() && made.back() == std::byte{0}) made.pop_back();
  return {made, BlockMode::coded};
}

/// Differences of a block to its base, whose sum is kept.
std::vector<std::byte> taken_of(const std::byte* data, std::size_t bytes, const Sink& sink,
                                std::size_t block) {
  std::vector<std::byte> differences(data, data + bytes);
  if (sink.taken.base == nullptr) return differences;
  const std::byte* base = sink.taken.base + block * kBlockBytes;
  if (sink.taken.sums != nullptr) sink.taken.sums[block] = checksum_sum(base, bytes);
  take_differences(sink.taken.differing, {data, bytes}, base, differences.data());
  return differences;
}

void encode_one(const std::byte* values, std::size_t bytes, const Sink& sink, std::size_t block) {
  const auto differences = taken_of(values, bytes, sink, block);
  const std::byte* data = differences.data();
  const auto [made, mode] = payload_of(data, bytes);
  const std::size_t size = made.size(), offset = *sink.used;
  require(offset + padded(size) <= sink.room, "payloads outrun their room");
  std::copy(made.begin(), made.end(), sink.payloads + offset);
  std::memset(sink.payloads + offset + size, 0, padded(size) - size);
  const std::uint32_t checksum = checksum_of(data, bytes, checksum_place(sink.binding, block));
  sink.entries[block] = {Descriptor::of(mode, size, checksum), offset};
  *sink.used = offset + padded(size);
}

void tell(Fault* fault, std::size_t block, unsigned what) {
  ++fault->blocks;
  if (fault->first_block != 0 && block + 1 >= fault->first_block) return;
  fault->first_block = static_cast<unsigned>(block) + 1;
  fault->what = what;
}

void restore_one(const Descriptor& descriptor, const std::byte* payload, std::size_t size,
                 std::byte* out, std::size_t bytes) {
  if (as_in_streams && descriptor.mode() == static_cast<std::uint8_t>(BlockMode::coded)) {
    std::vector<std::uint64_t> aligned(bytes / 8 + 1);
    auto* values = reinterpret_cast<std::byte*>(aligned.data());
    const StripKind kind{Codec::delta, Dtype::float32, 1};
    require(host_strips().decode(kind, payload, size, values, bytes), "a payload is no payload");
    std::copy_n(values, bytes, out);
    return;
  }
  std::memcpy(out, payload, size);
  std::memset(out + size, 0, bytes - size);
}

void decode_one(const Entry& entry, const std::byte* payloads, std::size_t room, std::byte* out,
                std::size_t bytes, const Binding& binding, Fault* fault, unsigned block) {
  const std::size_t size = entry.descriptor.payload_bytes();
  unsigned what = 0;
  if (size > bytes || entry.offset > room || padded(size) > room - entry.offset) {
    what = 1;
  } else {
    restore_one(entry.descriptor, payloads + entry.offset, size, out, bytes);
    const std::uint64_t place = checksum_place(binding, block);
    if (checksum_of(out, bytes, place) != entry.descriptor.checksum) what = 2;
  }
  if (what != 0) tell(fault, block, what);
}

/// Where the block is good, and its base is the sender's.
void put_one(const Entry& entry, const std::byte* payloads, std::size_t room, const PutBase& put,
             std::byte* out, std::size_t bytes, const Binding& binding, Fault* fault,
             unsigned block) {
  std::vector<std::byte> differences(bytes);
  Fault found{};
  decode_one(entry, payloads, room, differences.data(), bytes, binding, &found, block);
  if (found.blocks != 0) return tell(fault, block, found.what);
  const std::byte* base = put.base + block * kBlockBytes;
  if (checksum_sum(base, bytes) != put.sums[block]) {
    *put.fault = {1, 1, kOtherBase};
    return;
  }
  put_differences(put.differing, differences, base, out);
}

bool came(const Arrival& arrival, std::size_t block) {
  return arrival.stored == nullptr || arrival.stored[block] == arrival.mark;
}

bool given_up(const Arrival& arrival) {
  return *arrival.given_up == arrival.mark || *arrival.given_up == kGivenUpAll;
}

}  // namespace

void load_kernels(const Choice&) {}

void encode_blocks(const Choice& choice, const Values& values, std::size_t bytes, const Sink& sink,
                   int, cudaStream_t stream) {
  check(pretended::called_for(stream), "encode_blocks");
  require(sink.taken.base == nullptr || !keeps_blocks(choice) || sink.taken.differences != nullptr,
          "a kernel has no memory for differences");
  std::vector<std::size_t> order(blocks_of(bytes));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::size_t window = 1 + pretended::draw() % most_overtaken;
  for (std::size_t i = 0; i < order.size(); ++i)
    std::swap(order[i], order[std::min(order.size() - 1, i + pretended::draw() % window)]);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t block = order[i], begin = block * kBlockBytes;
    // The next encoder may begin before the last blocks of this one are taken.
    const bool reports =
        sink.progress.taken != nullptr && i + 1 + sink.progress.left >= order.size();
    pretended::put(stream, [=] {
      if (reports) *sink.progress.taken = sink.progress.mark;
      const std::byte* data = values.places != nullptr ? values.places[block] : values.data + begin;
      encode_one(data, std::min(kBlockBytes, bytes - begin), sink, block);
    });
    if (sink.progress.stored == nullptr) continue;
    pretended::put(stream, [=] { sink.progress.stored[block] = sink.progress.mark; });
  }
}

void decode_blocks(const Choice&, const Binding& binding, const Entry* entries,
                   const std::byte* payloads, std::size_t room, std::byte* out, std::size_t bytes,
                   Fault* fault, int, cudaStream_t stream, const Arrival& arrival) {
  check(pretended::called_for(stream), "decode_blocks");
  for (std::size_t block = 0; block < blocks_of(bytes); ++block) {
    const std::size_t begin = block * kBlockBytes;
    pretended::put_when(
        stream, [=] { return came(arrival, block) || given_up(arrival); },
        [=] {
          if (!came(arrival, block)) return tell(fault, block, 4);
          decode_one(entries[block], payloads, room, out + begin,
                     std::min(kBlockBytes, bytes - begin), binding, fault,
                     static_cast<unsigned>(block));
        });
  }
}

void decode_onto_base(const Choice& choice, const Binding& binding, const Entry* entries,
                      const std::byte* payloads, std::size_t room, const PutBase& put,
                      std::byte* out, std::size_t bytes, Fault* fault, int, cudaStream_t stream,
                      const Arrival& arrival) {
  check(pretended::called_for(stream), "decode_onto_base");
  require(!keeps_blocks(choice) || put.values != nullptr, "a kernel has no memory for values");
  for (std::size_t block = 0; block < blocks_of(bytes); ++block) {
    const std::size_t begin = block * kBlockBytes;
    pretended::put_when(
        stream, [=] { return came(arrival, block) || given_up(arrival); },
        [=] {
          if (!came(arrival, block)) return tell(fault, block, 4);
          put_one(entries[block], payloads, room, put, out + begin,
                  std::min(kBlockBytes, bytes - begin), binding, fault,
                  static_cast<unsigned>(block));
        });
  }
}

void decode_chosen_blocks(const Choice&, const Binding& binding, const Entry* entries,
                          const std::byte* payloads, std::size_t room, std::byte* out,
                          std::size_t bytes, const Chosen& chosen, Fault* fault, int,
                          cudaStream_t stream) {
  check(pretended::called_for(stream), "decode_chosen_blocks");
  for (std::size_t place = 0; place < chosen.count; ++place)
    pretended::put(stream, [=] {
      const std::size_t block = chosen.blocks[place];
      decode_one(entries[block], payloads, room, out + place * kBlockBytes,
                 std::min(kBlockBytes, bytes - block * kBlockBytes), binding, fault,
                 static_cast<unsigned>(block));
    });
}

namespace {

using Array = std::vector<std::byte>;

constexpr std::byte kLater{0x77};  // What comes behind a transfer puts in place of its values.

/// Memory that is taken meanwhile may stay: a channel whose device failed keeps what it has.
struct LostOnPurpose {
  LostOnPurpose() { __lsan_disable(); }
  ~LostOnPurpose() { __lsan_enable(); }
};

std::mt19937_64 bits;

Array made_up(std::size_t bytes) {
  Array array(bytes);
  for (std::size_t begin = 0; begin < bytes; begin += kBlockBytes) {
    const std::size_t block = std::min(kBlockBytes, bytes - begin);
    const std::size_t filled = bits() % 4 == 0 ? block : bits() % (block + 1);
    for (std::size_t i = 0; i < filled; i += 8) {
      const std::uint64_t word = bits();
      std::memcpy(array.data() + begin + i, &word, std::min<std::size_t>(8, filled - i));
    }
  }
  return array;
}

std::size_t some_size() {
  constexpr std::size_t sizes[] = {0, 1, kBlockBytes, kBlockBytes + 1, (1 << 20) + 3, 3 << 20};
  return sizes[bits() % std::size(sizes)];
}

ChannelOptions some_options() {
  return {(1 + bits() % 6) * kBlockBytes, static_cast<int>(1 + bits() % 4), 4, 5};
}

/// Of an update as often as of none; values of any size.
Choice some_update() {
  constexpr Dtype dtypes[] = {Dtype::int8, Dtype::int16, Dtype::float32, Dtype::int64};
  Choice choice{Codec::zvc, dtypes[bits() % std::size(dtypes)], 1};
  if (choice.dtype != Dtype::int8 && bits() % 2 == 0) choice.codec = Codec::delta;
  choice.difference = bits() % 2 == 0 ? UpdateKind::exclusive_or : UpdateKind::subtraction;
  return choice;
}

/// What an array becomes where some of its values change a little.
Array changed(Array array) {
  for (auto changes = bits() % 200; changes > 0 && !array.empty(); --changes)
    array[bits() % array.size()] ^= static_cast<std::byte>(1 + bits() % 255);
  return array;
}

std::optional<Choice> some_choice() {
  if (bits() % 4 == 0) return std::nullopt;
  return Choice{Codec::delta, Dtype::float32, 1};
}

struct Sending {
  Array source, target;
  std::shared_ptr<Ticket> ticket;
  Array expected;
  long damaged = -1;
};

void require_same(const Sending& one, bool limited) {
  if (one.damaged < 0 || !one.ticket->facts().compressed) {
    one.ticket->wait(10);
    require(one.target == one.expected, "an array came out different");
    require(one.ticket->facts().compressed || limited || one.ticket->facts().why_raw.empty(),
            "an array went raw: " + one.ticket->facts().why_raw);
    require(one.ticket->wire_bytes() <= one.expected.size() + 16 * 64 ||
                one.ticket->wire_bytes() <= one.expected.size() * 1.01,
            "more crossed the link than can");
    return;
  }
  std::string said;
  try {
    one.ticket->wait(10);
  } catch (const Error& error) {
    said = error.detail();
  }
  require(said.starts_with("block " + std::to_string(one.damaged) + " of "),
          "damage to block " + std::to_string(one.damaged) + " was told as: " + said);
}

template <typename Action>
bool refused(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.name() != "too late";
  }
  return false;
}

}  // namespace
}  // namespace lanescope::compress

#include "host_scenarios.hpp"
#include "peer_scenarios.hpp"

namespace lanescope::compress {
namespace {

/// Many arrays under way at a time, whose memory is overwritten by what comes behind on the
/// caller's streams; both devices, or one.
void send_between(int from, int to) {
  const bool limited = bits() % 8 == 0;
  pretended::limit_device_memory(limited ? kBlockBytes : std::size_t{1} << 40);
  std::vector<std::unique_ptr<Sending>> all;
  const Stream sending(from), receiving(to);
  {
    DeviceChannel channel(from, to, some_options(), bits() % 3 == 0 ? Via::host : Via::peer);
    for (auto count = 1 + bits() % 8; count > 0; --count) {
      auto& one = *all.emplace_back(std::make_unique<Sending>());
      const std::size_t bytes = some_size();
      one.expected = made_up(bytes);
      one.source.resize(bytes);
      one.target.assign(bytes, std::byte{0x55});
      // The values are made on the stream, at some time, and overwritten behind the sending.
      pretended::put(sending.get(), [&one] { one.source = one.expected; });
      pretended::put(receiving.get(),
                     [&one] { std::fill(one.target.begin(), one.target.end(), std::byte{1}); });
      const auto choice = some_choice();
      if (choice && bytes > 0 && bits() % 4 == 0) {
        one.damaged = static_cast<long>(bits() % blocks_of(bytes));
        channel.damage_next(static_cast<std::size_t>(one.damaged));
      }
      // A vector's memory stays where it is when it gets as many values again.
      one.ticket = channel.send(one.source.data(), one.target.data(), bytes, choice, sending.get(),
                                receiving.get());
      if (!one.ticket->facts().compressed && one.damaged >= 0) {
        one.damaged = -1;
        channel.damage_next(std::size_t{1} << 40);
      }
      pretended::put(sending.get(),
                     [&one] { std::fill(one.source.begin(), one.source.end(), kLater); });
      if (bits() % 4 == 0) one.ticket->done();
    }
    if (bits() % 2 == 0)
      for (const auto& one : all) require_same(*one, limited);
  }
  for (const auto& one : all) require_same(*one, limited);
  pretended::let_all_happen();
}

/// An array on the sender's side, its base there, and what the receiver holds.
struct Updating : Sending {
  Array base, held, made_base;
  bool differs = false;    // the receiver's base
  bool by_blocks = false;  // blocks whose base is the same are new then
};

void require_updated(const Updating& one, bool limited) {
  if (!one.differs || !one.ticket->facts().compressed) {
    if (one.damaged < 0 || !one.ticket->facts().compressed) return require_same(one, limited);
    std::string said;
    try {
      one.ticket->wait(10);
    } catch (const Error& error) {
      said = error.detail();
    }
    require(said.starts_with("block " + std::to_string(one.damaged) + " of "), "damage: " + said);
    const std::size_t begin = static_cast<std::size_t>(one.damaged) * kBlockBytes;
    const std::size_t size = std::min(kBlockBytes, one.held.size() - begin);
    require(std::memcmp(one.target.data() + begin, one.held.data() + begin, size) == 0,
            "a damaged block was put onto the base");
    return;
  }
  std::string said;
  try {
    one.ticket->wait(10);
  } catch (const Error& error) {
    said = error.detail();
  }
  // differences of a block that is damaged are not put onto the base, either
  require(said.starts_with("the base differs") || (one.damaged >= 0 && said.starts_with("block ")),
          "another base was told as: " + said);
  if (!one.by_blocks) return require(one.target == one.held, "another base was changed");
  for (std::size_t begin = 0; begin < one.held.size(); begin += kBlockBytes) {
    const std::size_t size = std::min(kBlockBytes, one.held.size() - begin);
    const auto same = [&](const Array& other, const Array& array) {
      return std::memcmp(other.data() + begin, array.data() + begin, size) == 0;
    };
    const bool old =
        static_cast<long>(begin / kBlockBytes) == one.damaged || !same(one.made_base, one.held);
    require(same(one.target, old ? one.held : one.expected),
            old ? "a block of another base was changed" : "a block is not new");
  }
}

/// Updates between devices, several at a time; some receivers hold another base.
void send_updates(int from, int to) {
  const bool limited = bits() % 8 == 0;
  pretended::limit_device_memory(limited ? kBlockBytes : std::size_t{1} << 40);
  std::vector<std::unique_ptr<Updating>> all;
  const Stream sending(from), receiving(to);
  DeviceChannel channel(from, to, some_options(), bits() % 3 == 0 ? Via::host : Via::peer);
  for (auto count = 1 + bits() % 6; count > 0; --count) {
    auto& one = *all.emplace_back(std::make_unique<Updating>());
    const std::size_t bytes = some_size();
    one.made_base = one.held = made_up(bytes);
    one.expected = changed(one.held);
    one.differs = bytes > 0 && bits() % 4 == 0;
    one.by_blocks = true;
    if (one.differs) one.held[bits() % bytes] ^= std::byte{1};
    one.base.resize(bytes);
    one.source.resize(bytes);
    one.target.resize(bytes);
    pretended::put(sending.get(), [&one] {
      one.base = one.made_base;
      one.source = one.expected;
    });
    pretended::put(receiving.get(), [&one] { one.target = one.held; });
    const auto choice = bits() % 6 == 0 ? std::optional<Choice>() : some_update();
    if (choice && bytes > 0 && bits() % 6 == 0) {
      one.damaged = static_cast<long>(bits() % blocks_of(bytes));
      channel.damage_next(static_cast<std::size_t>(one.damaged));
    }
    one.ticket = channel.send(one.source.data(), one.target.data(), bytes, choice, sending.get(),
                              receiving.get(), choice ? one.base.data() : nullptr);
    if (!one.ticket->facts().compressed && one.damaged >= 0) {
      one.damaged = -1;
      channel.damage_next(std::size_t{1} << 40);
    }
    pretended::put(sending.get(), [&one] {
      std::ranges::fill(one.source, kLater);
      std::ranges::fill(one.base, kLater);
    });
  }
  for (const auto& one : all) require_updated(*one, limited);
  pretended::let_all_happen();
}

/// The same by parcels, which are put onto the base or beside it, by channels with other slabs.
void bring_updates_back() {
  const bool limited = bits() % 8 == 0;
  pretended::limit_device_memory(limited ? 4096 : std::size_t{1} << 40);
  const auto options = [] {
    return HostChannelOptions{some_options(), (1 + bits() % 64) * kBlockBytes,
                              bits() % 2 == 0 ? RestoreBy::staged : RestoreBy::mapped};
  };
  HostChannel first(0, options()), second(1, options());
  const Stream caller(0), other(1);
  for (auto count = 1 + bits() % 4; count > 0; --count) {
    Updating one;
    one.made_base = one.held = made_up(some_size());
    const std::size_t bytes = one.held.size();
    one.expected = changed(one.held);
    one.base.resize(bytes);
    one.source.resize(bytes);
    pretended::put(caller.get(), [&one] {
      one.base = one.made_base;
      one.source = one.expected;
    });
    const auto choice = some_update();
    const auto offload =
        first.offload(one.source.data(), bytes, choice, caller.get(), one.base.data());
    pretended::put(caller.get(), [&one] {
      std::ranges::fill(one.source, kLater);
      std::ranges::fill(one.base, kLater);
    });
    one.differs = bytes > 0 && bits() % 4 == 0;
    if (one.differs) one.held[bits() % bytes] ^= std::byte{1};
    const bool onto_itself = bits() % 2 == 0;
    Array there(bytes);
    one.target.assign(bytes, std::byte{0x55});
    const Array untouched = one.target;
    pretended::put(other.get(), [&] { (onto_itself ? one.target : there) = one.held; });
    if (offload.parcel->is_update() && bytes > 0 && bits() % 6 == 0) {
      one.damaged = static_cast<long>(bits() % blocks_of(bytes));
      offload.parcel->damage(static_cast<std::size_t>(one.damaged));
    }
    if (offload.parcel->is_update()) {
      constexpr std::uint32_t first_block[] = {0};
      require(refused([&] { offload.parcel->stream_front(choice.dtype); }) && refused([&] {
                second.restore_blocks(offload.parcel, first_block, one.target.data(), nullptr);
              }),
              "differences were taken for values");
    }
    const auto* base = onto_itself ? one.target.data() : there.data();
    try {
      one.ticket = second.restore(offload.parcel, one.target.data(), other.get(),
                                  offload.parcel->is_update() ? base : nullptr);
    } catch (const Error& error) {
      require(limited && error.name() == "no memory", error.what());
      pretended::let_all_happen();
      continue;
    }
    if (!onto_itself) one.held = untouched;
    require_updated(one, true);
    pretended::let_all_happen();
  }
  pretended::let_all_happen();
}

/// The sender fails some time, maybe amid a sending: whoever asks is told, and the receiver's
/// streams come to their end.
void send_from_what_fails() {
  const LostOnPurpose lost;  // what the failed device may still write to
  pretended::limit_device_memory(std::size_t{1} << 40);
  std::vector<std::unique_ptr<Sending>> all;
  const Stream sending(0), receiving(1);
  {
    DeviceChannel channel(0, 1, some_options(), bits() % 3 == 0 ? Via::host : Via::peer);
    bool told = false, ended = true;
    const auto hear = [&](const auto& action) {
      try {
        action();
      } catch (const Error& error) {
        told = told || error.code() == cudaErrorLaunchFailure;
        ended = false;
      }
    };
    if (bits() % 2 == 0) pretended::fail_after(0, bits() % 300);
    const bool updates = bits() % 3 == 0;
    for (auto count = 1 + bits() % 6; count > 0; --count) {
      auto& one = *all.emplace_back(std::make_unique<Sending>());
      one.source = made_up(kBlockBytes + some_size());
      one.target = one.source;  // the base, too
      hear([&] {
        const Choice choice = updates ? some_update() : Choice{Codec::delta, Dtype::float32, 1};
        one.ticket =
            channel.send(one.source.data(), one.target.data(), one.source.size(), choice,
                         sending.get(), receiving.get(), updates ? one.source.data() : nullptr);
      });
      // Whatever became of it, this comes behind it.
      pretended::put(receiving.get(), [&one] { one.target.assign(one.target.size(), kLater); });
    }
    for (auto looks = bits() % 12; looks > 0; --looks)
      hear([&] {
        if (all.front()->ticket) all.front()->ticket->done();
      });
    pretended::fail_after(0, 0);
    for (const auto& one : all)
      hear([&] {
        if (one->ticket) one->ticket->wait(10);
      });
    require(told || ended, "nobody was told that the sender failed");
    pretended::let_all_happen();
    require(pretended::steps_left(1) == 0,
            "a stream of the receiver waits for a sender that failed");
    for (const auto& one : all)
      require(std::ranges::all_of(one->target, [](std::byte value) { return value == kLater; }),
              "an array was written to when its stream had gone on");
  }
  pretended::repair(0);
  pretended::let_all_happen();
}

}  // namespace
}  // namespace lanescope::compress

int main(int count, char** words) {
  using namespace lanescope::compress;
  const std::uint64_t rounds = count > 1 ? std::strtoull(words[1], nullptr, 10) : 300;
  const std::uint64_t first = count > 2 ? std::strtoull(words[2], nullptr, 10) : 1;
  for (now_seed = first; now_seed < first + rounds; ++now_seed) {
    bits.seed(now_seed);
    pretended::seed(now_seed);
    try {
      offload_from_several_streams();
      send_between(0, 1);
      send_between(0, 0);
      send_updates(0, 1);
      send_updates(0, 0);
      bring_updates_back();
      send_from_what_fails();
      bring_to_host_and_back();
      bring_many_slabs_back();
      bring_back_where_a_call_fails();
      bring_back_what_points_anywhere();
      bring_pages();
      send_across_processes(0, 1);
      send_across_processes(0, 0);
      if (now_seed % 3 != 0) lose_a_process(static_cast<int>(now_seed % 3) - 1);
    } catch (const lanescope::Error& error) {
      require(false, error.what());
    }
  }
  std::printf("%llu rounds came out as they went in\n", static_cast<unsigned long long>(rounds));
}
