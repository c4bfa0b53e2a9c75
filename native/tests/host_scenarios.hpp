// Arrays, pages and many slabs to the host and back; part of channel_simulation.cpp, behind what
// its scenarios have in common.
#pragma once

#include "compress/host_channel.hpp"

namespace lanescope::compress {
namespace {

/// Offloads and restores under way together, from parcels of two channels.
void bring_to_host_and_back() {
  const bool limited = bits() % 8 == 0;
  pretended::limit_device_memory(limited ? 4096 : std::size_t{1} << 40);
  const auto options = [] {
    return HostChannelOptions{some_options(), (1 + bits() % 64) * kBlockBytes,
                              bits() % 2 == 0 ? RestoreBy::staged : RestoreBy::mapped};
  };
  auto first = std::make_unique<HostChannel>(0, options());
  HostChannel second(static_cast<int>(bits() % 2), options());
  const Stream caller(0);
  struct Case {
    Array source, expected;
    HostChannel::Offload offload;
    std::vector<std::unique_ptr<Sending>> restores;
  };
  std::vector<std::unique_ptr<Case>> cases;
  for (auto count = 1 + bits() % 6; count > 0; --count) {
    auto& one = *cases.emplace_back(std::make_unique<Case>());
    one.expected = made_up(some_size());
    one.source.resize(one.expected.size());
    pretended::put(caller.get(), [&one] { one.source = one.expected; });
    one.offload = first->offload(one.source.data(), one.source.size(), some_choice(), caller.get());
    pretended::put(caller.get(),
                   [&one] { std::fill(one.source.begin(), one.source.end(), kLater); });
    if (bits() % 3 == 0) one.offload = {};  // dropped while it is under way
  }
  for (const auto& one : cases) {
    if (!one->offload.parcel) continue;
    long damaged = -1;
    if (one->offload.parcel->choice() && !one->source.empty() && bits() % 4 == 0) {
      const std::size_t blocks = blocks_of(one->source.size()), block = bits() % blocks;
      const std::size_t other = bits() % 2 == 0 ? bits() % blocks : block;
      damaged = static_cast<long>(std::min(block, other));
      if (block == other)
        one->offload.parcel->damage(block);
      else
        one->offload.parcel->exchange(block, other);
    }
    for (auto times = bits() % 3; times > 0; --times) {
      auto& back = *one->restores.emplace_back(std::make_unique<Sending>());
      back.expected = one->expected;
      back.damaged = damaged;
      back.target.assign(back.expected.size(), std::byte{0x55});
      HostChannel& channel = bits() % 2 == 0 ? *first : second;
      try {
        back.ticket = channel.restore(one->offload.parcel, back.target.data(), nullptr);
      } catch (const Error& error) {
        require(limited && error.name() == "no memory", error.what());
        one->restores.pop_back();
      }
    }
  }
  if (bits() % 2 == 0) first.reset();
  for (const auto& one : cases)
    for (const auto& back : one->restores) require_same(*back, true);
  if (first) {
    for (const auto& one : cases) {
      if (!one->offload.parcel) continue;
      const std::size_t stored = one->offload.parcel->stored_bytes();
      const std::size_t most = stored + blocks_of(one->source.size()) * sizeof(Entry) + 512;
      require(one->offload.parcel->held_bytes() <= RangeArena::rounded(most),
              "a parcel holds more than it stores");
    }
    for (const auto& one : cases) one->offload = {};
    pretended::let_all_happen();
    first->offload(nullptr, 0, std::nullopt, caller.get());  // which reaps
    require(first->arena().taken_bytes() == 0, "parcels that are gone hold memory");
  }
  pretended::let_all_happen();
}

/// Parcels of arrays that are many slabs, and of some that are one; some blocks have no payload.
struct ManySlabs {
  explicit ManySlabs(std::size_t large, std::size_t small = 0) : values(large + small) {
    most_overtaken = 1 + bits() % 12;
    const Choice choice{Codec::exponent, Dtype::bfloat16, 1};
    for (std::size_t i = 0; i < values.size(); ++i) {
      Array& array = values[i];
      array = full(i < large ? 96 : 1 + bits() % 4);
      for (std::size_t begin = 0; begin < array.size(); begin += kBlockBytes)
        if (bits() % 8 == 0) std::fill_n(array.data() + begin, kBlockBytes, std::byte{0});
      offloads.push_back(channel.offload(array.data(), array.size(), choice, callers[0].get()));
      offloads.back().ticket->wait(10);
    }
    most_overtaken = 40;
  }

  static Array full(std::size_t blocks) {
    Array array(blocks * kBlockBytes);
    for (std::size_t i = 0; i < array.size(); i += 8) {
      const std::uint64_t word = bits() | std::uint64_t{1} << 56;
      std::memcpy(array.data() + i, &word, 8);
    }
    return array;
  }

  Parcel& parcel(std::size_t i) const { return *offloads[i].parcel; }

  void restore(std::size_t i, std::size_t stream) {
    auto& one = *all.emplace_back(std::make_unique<Sending>());
    one.expected = values[i];
    one.target.assign(one.expected.size(), std::byte{0x55});
    one.ticket = channel.restore(offloads[i].parcel, one.target.data(), callers[stream].get(),
                                 nullptr, Join::later);
  }

  std::vector<Array> values;
  std::vector<std::unique_ptr<Sending>> all;
  HostChannel channel{0,
                      {{(4 + bits() % 12) * kBlockBytes, static_cast<int>(2 + bits() % 4), 1},
                       64 * kBlockBytes,
                       RestoreBy::staged}};
  Stream callers[2] = {Stream(0), Stream(0)};
  std::vector<HostChannel::Offload> offloads;
};

/// Restores that begin when all are on their streams: the memory for slabs is used again and again.
void bring_many_slabs_back() {
  pretended::limit_device_memory(std::size_t{1} << 40);
  ManySlabs some(2, 8);
  bool may_begin = false;
  pretended::put_when(some.callers[0].get(), [&] { return may_begin; }, [] {});
  for (std::size_t i = 0; i < some.values.size(); ++i) some.restore(i, 0);
  may_begin = true;
  for (const auto& one : some.all) require_same(*one, false);
  pretended::let_all_happen();
}

/// One call fails amid a restore, whose values nobody uses; those that come back by another stream
/// are right.
void bring_back_where_a_call_fails() {
  const LostOnPurpose lost;  // what a channel keeps where the end of a transfer is not known
  pretended::limit_device_memory(std::size_t{1} << 40);
  ManySlabs some(2, 4);
  bool may_begin = false;
  pretended::put_when(some.callers[0].get(), [&] { return may_begin; }, [] {});
  const auto restore = [&](std::size_t i, std::size_t stream) {
    try {
      some.restore(i, stream);
    } catch (const Error& error) {
      require(pretended::has_failed_one(), error.what());
    }
  };
  restore(0, 0);
  pretended::fail_one_after(bits() % 120);
  restore(1, 0);
  for (std::size_t i = 0; i < some.values.size(); ++i) restore(i, 1);
  pretended::fail_one_after(std::size_t{1} << 40);
  may_begin = true;
  for (const auto& one : some.all)
    if (one->ticket) require_same(*one, false);
  pretended::let_all_happen();
}

/// Entries of some blocks point anywhere, as none that a kernel wrote does: these blocks are told,
/// the others come back, and the sanitizer finds nothing that is read or written outside.
void bring_back_what_points_anywhere() {
  pretended::limit_device_memory(std::size_t{1} << 40);
  ManySlabs some(1);
  const std::size_t blocks = blocks_of(some.values[0].size());
  const std::size_t front = (2 * blocks * sizeof(Entry) + 255) / 256 * 256;
  const auto payloads = some.parcel(0).payload_room();
  auto* entries = reinterpret_cast<Entry*>(payloads.data() - front);
  std::vector<bool> is_damaged(blocks);
  for (auto count = 1 + bits() % 3; count > 0; --count) {
    const std::size_t block = bits() % blocks;
    Entry& entry = entries[block];
    const std::size_t offsets[] = {entry.offset ^ 8,     0,      payloads.size(),
                                   payloads.size() - 16, bits(), bits() % payloads.size()};
    entry.offset = offsets[bits() % std::size(offsets)];
    entry.descriptor =
        Descriptor::of(BlockMode::coded, bits() % (kBlockBytes + 1), entry.descriptor.checksum ^ 1);
    is_damaged[block] = true;
  }
  some.restore(0, 0);
  Sending& one = *some.all[0];
  one.damaged = std::ranges::find(is_damaged, true) - is_damaged.begin();
  require_same(one, false);
  pretended::let_all_happen();
  for (std::size_t block = 0; block < blocks; ++block) {
    const auto at = static_cast<std::ptrdiff_t>(block * kBlockBytes);
    require(is_damaged[block] ||
                std::equal(one.target.begin() + at, one.target.begin() + at + kBlockBytes,
                           one.expected.begin() + at),
            "a block beside one that is damaged came out different");
  }
}

/// A parcel's stream, its payloads in the order of blocks.
Array stream_of(Parcel& parcel) {
  Array stream = parcel.stream_front(Dtype::bytes);
  const Layout layout =
      layout_of(stream, reinterpret_cast<const Header*>(stream.data())->stored_bytes);
  for (std::size_t first = 0; first < layout.blocks.size(); first += 3) {
    Array some(3 * kBlockBytes);
    some.resize(parcel.copy_payloads(first, first + 3, some));
    stream.insert(stream.end(), some.begin(), some.end());
  }
  require(stream.size() == layout.header.stored_bytes, "a stream has another length");
  return stream;
}

std::shared_ptr<Parcel> loaded(HostChannel& channel, const Array& stream) {
  const std::size_t front = front_length(stream, stream.size());
  const auto parcel = channel.load(std::span(stream).first(front), stream.size());
  const auto room = parcel->payload_room();
  require(room.size() == stream.size() - front, "payloads have other room");
  std::copy(stream.begin() + static_cast<std::ptrdiff_t>(front), stream.end(), room.begin());
  return parcel;
}

/// Pages that begin anywhere.
struct PageSet {
  std::vector<Array> rooms, expected;
  std::vector<std::size_t> shifts, offsets;
  std::size_t bytes = 0;

  void add(std::size_t size, bool aligned = false) {
    expected.push_back(made_up(size));
    shifts.push_back(aligned || bits() % 2 == 0 ? 0 : bits() % 20);
    rooms.emplace_back(size + shifts.back() + 16, std::byte{0x11});
    offsets.push_back(bytes);
    bytes += padded(size);
  }
  std::size_t count() const { return rooms.size(); }
  std::size_t size(std::size_t page) const { return expected[page].size(); }
  std::byte* at(std::size_t page) { return rooms[page].data() + shifts[page]; }
  PageCopy copy(std::size_t page, std::byte* array, bool gather) {
    const auto zeros = static_cast<std::uint32_t>(padded(size(page)) - size(page));
    return gather ? PageCopy{at(page), array, size(page), zeros}
                  : PageCopy{array, at(page), size(page)};
  }

  /// Whether a page is as it was, and nothing beside it was written to.
  bool is_whole(std::size_t page) {
    const auto outside = [](std::byte one) { return one == kLater; };
    return std::equal(expected[page].begin(), expected[page].end(), at(page)) &&
           std::all_of(rooms[page].data(), at(page), outside) &&
           std::all_of(at(page) + size(page), rooms[page].data() + rooms[page].size(), outside);
  }
};

/// Takes pages away where they lie: as they are, or by whole blocks that may be compressed.
HostChannel::Offload offload_where_they_lie(HostChannel& channel, PageSet& set, cudaStream_t caller,
                                            Join joins) {
  std::vector<Page> pages;
  bool whole = true;
  for (std::size_t i = 0; i < set.count(); ++i) {
    pages.push_back({set.at(i), set.size(i)});
    whole = whole && set.size(i) % kBlockBytes == 0 && is_aligned(set.at(i));
  }
  const auto choice = some_choice();
  require(whole || !choice || refused([&] { channel.offload_pages(pages, choice, caller); }),
          "blocks that are not whole are compressed where they lie");
  return channel.offload_pages(pages, whole ? choice : std::nullopt, caller, joins);
}

/// Pages of any sizes leave as one array; all or some come back in any order, from parcels that
/// are evicted meanwhile, or went through a stream.
void bring_pages() {
  as_in_streams = bits() % 2 == 0;
  pretended::limit_device_memory(std::size_t{1} << 40);
  constexpr std::size_t sizes[] = {1, 100, 16 << 10, 64 << 10, (64 << 10) + 16, 200 << 10};
  const HostChannelOptions options{some_options(), (1 + bits() % 64) * kBlockBytes,
                                   bits() % 2 == 0 ? RestoreBy::staged : RestoreBy::mapped};
  HostChannel channel(0, options);
  PageCopier copier(0);
  const Stream caller(0);
  PageSet set;
  const bool whole = bits() % 3 == 0;
  for (auto count = 1 + bits() % 12; count > 0; --count)
    set.add(whole ? (1 + bits() % 3) * kBlockBytes : sizes[bits() % std::size(sizes)], whole);
  pretended::put(caller.get(), [&] {
    for (std::size_t i = 0; i < set.count(); ++i) std::ranges::copy(set.expected[i], set.at(i));
  });
  const auto spoil = [&](Array& array) {
    pretended::put(caller.get(), [&array] { std::ranges::fill(array, kLater); });
  };
  void* room = nullptr;
  cudaMalloc(&room, set.bytes);
  auto* staging = static_cast<std::byte*>(room);
  std::vector<PageCopy> copies;
  const Join joins = bits() % 2 == 0 ? Join::now : Join::later;
  const auto side_by_side = [&] {
    for (std::size_t i = 0; i < set.count(); ++i)
      copies.push_back(set.copy(i, staging + set.offsets[i], true));
    copier.copy(copies, 5, caller.get());
    return channel.offload(staging, set.bytes, some_choice(), caller.get(), nullptr, joins);
  };
  auto [parcel, ticket] =
      bits() % 2 == 0 ? side_by_side() : offload_where_they_lie(channel, set, caller.get(), joins);
  if (joins == Join::later) channel.join(*ticket, caller.get());
  for (Array& room : set.rooms) spoil(room);
  pretended::put(caller.get(), [=] { std::fill_n(staging, set.bytes, kLater); });
  if (bits() % 3 == 0) {
    const Array stream = stream_of(*parcel);
    const bool raw = !parcel->choice();
    if (raw || as_in_streams) {
      Array back(set.bytes);
      decompress_on_host(layout_of(stream), stream, back, 1);
      for (std::size_t i = 0; i < set.count(); ++i)
        require(std::ranges::equal(set.expected[i],
                                   std::span(back).subspan(set.offsets[i], set.expected[i].size())),
                "a stream holds another page");
    }
    if (!raw || as_in_streams) {
      parcel->evict();
      parcel = loaded(channel, stream);
      require(stream_of(*parcel) == stream, "a stream that was loaded is saved otherwise");
    }
  }
  std::vector<std::size_t> wanted(set.count());
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
  std::shuffle(wanted.begin(), wanted.end(), bits);
  wanted.resize(1 + bits() % wanted.size());
  const Stream other(0);
  const Array later = made_up(set.bytes);
  // What is offloaded next may happen before all that, where memory was given back too early.
  const auto evict_and_go_on = [&] {
    if (bits() % 2 == 0) return;
    parcel->evict();
    for (int i = 0; i < 3; ++i)
      channel.offload(later.data(), later.size(), std::nullopt, other.get());
  };
  std::shared_ptr<Ticket> back;
  copies.clear();
  if (bits() % 3 == 0) {
    back = channel.restore(parcel, staging, caller.get(), nullptr, joins);
    evict_and_go_on();
    if (joins == Join::later) channel.join(*back, caller.get());
    for (const std::size_t page : wanted)
      copies.push_back(set.copy(page, staging + set.offsets[page], false));
  } else if (!parcel->choice()) {
    std::vector<ParcelPart> parts;
    for (const std::size_t page : wanted)
      parts.push_back({set.offsets[page], set.size(page), set.at(page)});
    back = channel.restore_parts(parcel, parts, caller.get());
    evict_and_go_on();
  } else {
    std::vector<std::uint32_t> blocks;
    std::size_t at = 0;
    void* some = nullptr;
    cudaMalloc(&some, 2 * set.bytes + wanted.size() * 2 * kBlockBytes);
    for (const std::size_t page : wanted) {
      const std::size_t begin = set.offsets[page], end = begin + set.size(page);
      copies.push_back(
          set.copy(page, static_cast<std::byte*>(some) + at + begin % kBlockBytes, false));
      for (std::size_t block = begin / kBlockBytes; block * kBlockBytes < end; ++block) {
        blocks.push_back(static_cast<std::uint32_t>(block));
        at += kBlockBytes;
      }
    }
    back = channel.restore_blocks(parcel, blocks, static_cast<std::byte*>(some), caller.get());
    evict_and_go_on();
    copier.copy(copies, 5, caller.get());
    cudaFreeAsync(some, caller.get());
    copies.clear();
  }
  copier.copy(copies, 5, caller.get());
  channel.trim(0);
  back->wait(10);
  pretended::let_all_happen();
  for (const std::size_t page : wanted) require(set.is_whole(page), "a page came back otherwise");
  if (parcel->evicted()) {
    const std::size_t pinned = channel.arena().pinned_bytes();
    require(channel.trim(pinned) == 0, "memory was given back that was to stay");
    require(channel.trim(0) == pinned, "not all free memory was given back");
    require(channel.arena().pinned_bytes() == 0, "memory of what was evicted stays");
  }
  cudaFree(staging);
  as_in_streams = false;
}

/// What leaves, and where it comes back to.
struct Leaving {
  PageSet set;
  Array base, expected, target;
  std::size_t caller = 0;
  HostChannel::Offload offload;
  bool is_joined = true;
};

/// An array, an update or pages.
HostChannel::Offload offload_something(HostChannel& channel, Leaving& one, cudaStream_t caller) {
  const Join joins = one.is_joined ? Join::now : Join::later;
  if (one.set.count() > 1 || bits() % 2 == 0)
    return offload_where_they_lie(channel, one.set, caller, joins);
  const bool whole = is_aligned(one.set.at(0));
  const auto choice = whole && bits() % 3 == 0 ? some_update() : some_choice();
  const bool is_update = choice && choice->difference != UpdateKind::none;
  return channel.offload(one.set.at(0), one.set.bytes, choice, caller,
                         is_update ? one.base.data() : nullptr, joins);
}

/// Arrays of all kinds from the streams of several callers, some of them dropped while they are
/// under way; there may be little memory, or one call fails. All streams come to their end.
void offload_from_several_streams() {
  const LostOnPurpose lost;  // what a channel keeps where a call failed
  const bool fails = bits() % 2 == 0, limited = !fails && bits() % 4 == 0;
  constexpr std::size_t some_memory[] = {4096, 40 << 10, 2 << 20};
  pretended::limit_device_memory(limited ? some_memory[bits() % 3] : std::size_t{1} << 40);
  pretended::let_streams_take_values(bits() % 4 != 0);
  const auto tried = [&](const auto& action) {
    try {
      action();
      return true;
    } catch (const Error& error) {
      require(error.name() != "too late" && fails && pretended::has_failed_one(), error.what());
      return false;
    }
  };
  std::vector<std::unique_ptr<Leaving>> all;
  const Stream callers[] = {Stream(0), Stream(0), Stream(0)};
  const auto channel = std::make_unique<HostChannel>(
      0, HostChannelOptions{some_options(), (1 + bits() % 64) * kBlockBytes,
                            bits() % 2 == 0 ? RestoreBy::staged : RestoreBy::mapped});
  const auto spoil = [&](Leaving& one) {
    pretended::put(callers[one.caller].get(), [&one] {
      for (Array& room : one.set.rooms) std::ranges::fill(room, kLater);
      std::ranges::fill(one.base, kLater);
    });
  };
  const auto join = [&](Leaving& one) {
    if (std::exchange(one.is_joined, true)) return;
    tried([&] { channel->join(*one.offload.ticket, callers[one.caller].get()); });
    spoil(one);
    if (bits() % 4 == 0) one.offload = {};
  };
  const bool fails_to_wait = bits() % 2 == 0;
  if (fails && fails_to_wait)
    pretended::fail_one_after(bits() % 4, pretended::Calls::waits_for_words);
  else if (fails)
    pretended::fail_one_after(bits() % 200);
  for (auto count = 1 + bits() % 12; count > 0; --count) {
    auto& one = *all.emplace_back(std::make_unique<Leaving>());
    const bool whole = bits() % 4 != 0;
    for (auto pages = 1 + bits() % 3; pages > 0; --pages)
      one.set.add(whole ? bits() % 4 * kBlockBytes : padded(some_size()), whole);
    for (const Array& page : one.set.expected)
      one.expected.insert(one.expected.end(), page.begin(), page.end());
    one.base = changed(one.expected);
    one.caller = bits() % 3;
    pretended::put(callers[one.caller].get(), [&one] {
      for (std::size_t i = 0; i < one.set.count(); ++i)
        std::ranges::copy(one.set.expected[i], one.set.at(i));
    });
    one.is_joined = bits() % 2 == 0;
    const cudaStream_t caller = callers[one.caller].get();
    if (!tried([&] { one.offload = offload_something(*channel, one, caller); })) {
      one.is_joined = true;
      continue;
    }
    if (one.is_joined) spoil(one);
    if (one.is_joined && bits() % 4 == 0) one.offload = {};
    if (bits() % 2 == 0) join(*all[bits() % all.size()]);
  }
  for (const auto& one : all) join(*one);
  for (const auto& one : all) {
    if (!one->offload.parcel) continue;
    one->target.assign(one->expected.size(), std::byte{0x55});
    tried([&] {
      if (one->offload.parcel->is_update()) return one->offload.ticket->wait(10);
      channel->restore(one->offload.parcel, one->target.data(), nullptr)->wait(10);
      require(one->target == one->expected, "an array of several came out different");
    });
  }
  for (const auto& one : all) one->offload = {};
  pretended::let_all_happen();
  pretended::fail_one_after(std::size_t{1} << 40);
  require(pretended::steps_left(0) == 0, "a stream waits for what never comes");
  if (!fails) {
    tried([&] { channel->offload(nullptr, 0, std::nullopt, callers[0].get()); });  // which reaps
    require(channel->arena().taken_bytes() == 0, "parcels that are gone hold memory");
  }
  pretended::let_streams_take_values(true);
}

}  // namespace
}  // namespace lanescope::compress
