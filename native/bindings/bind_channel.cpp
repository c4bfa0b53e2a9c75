#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "compress/channel.hpp"
#include "compress/device_sample.hpp"
#include "compress/host_channel.hpp"
#include "page_values.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::Error;
using lanescope::compress::ChannelOptions;
using lanescope::compress::Choice;
using lanescope::compress::Codec;
using lanescope::compress::DeviceChannel;
using lanescope::compress::Dtype;
using lanescope::compress::HostChannel;
using lanescope::compress::HostChannelOptions;
using lanescope::compress::Join;
using lanescope::compress::Parcel;
using lanescope::compress::RestoreBy;
using lanescope::compress::Ticket;
using lanescope::compress::UpdateKind;
using lanescope::compress::Via;

namespace {

using Released = nb::call_guard<nb::gil_scoped_release>;

/// A channel until it is closed. The last call that uses it ends it, without the interpreter's
/// lock where that is `close`.
template <typename Channel>
class Closable {
 public:
  explicit Closable(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  std::shared_ptr<Channel> get() const {
    if (!channel_) throw Error("channel", 0, "closed", "the channel is closed; make a new one");
    return channel_;
  }
  void close() {
    auto last = std::move(channel_);
    const nb::gil_scoped_release released;
    last.reset();
  }

 private:
  std::shared_ptr<Channel> channel_;
};

using Devices = Closable<DeviceChannel>;
using Host = Closable<HostChannel>;

template <typename T>
T* pointer_of(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

std::optional<Choice> choice_of(std::optional<Codec> codec, Dtype dtype, int dimensionality,
                                UpdateKind difference) {
  if (!codec) return std::nullopt;
  Choice choice{*codec, dtype, dimensionality};
  choice.difference = difference;
  return choice;
}

/// The base, of what is an update.
const std::byte* base_of(std::uintptr_t base, UpdateKind difference) {
  return difference == UpdateKind::none ? nullptr : pointer_of<const std::byte>(base);
}

std::shared_ptr<Ticket> send(const Devices& self, std::uintptr_t source, std::uintptr_t target,
                             std::size_t bytes, std::optional<Codec> codec, Dtype dtype,
                             int dimensionality, std::uintptr_t source_stream,
                             std::uintptr_t target_stream, UpdateKind difference,
                             std::uintptr_t base) {
  const auto channel = self.get();
  const nb::gil_scoped_release released;
  return channel->send(pointer_of<const std::byte>(source), pointer_of<std::byte>(target), bytes,
                       choice_of(codec, dtype, dimensionality, difference),
                       pointer_of<CUstream_st>(source_stream),
                       pointer_of<CUstream_st>(target_stream), base_of(base, difference));
}

Join join_of(bool joins) {
  return joins ? Join::now : Join::later;
}

std::pair<std::shared_ptr<Parcel>, std::shared_ptr<Ticket>> offload(
    const Host& self, std::uintptr_t source, std::size_t bytes, std::optional<Codec> codec,
    Dtype dtype, int dimensionality, std::uintptr_t stream, UpdateKind difference,
    std::uintptr_t base, bool joins) {
  const auto channel = self.get();
  const nb::gil_scoped_release released;
  auto [parcel, ticket] =
      channel->offload(pointer_of<const std::byte>(source), bytes,
                       choice_of(codec, dtype, dimensionality, difference),
                       pointer_of<CUstream_st>(stream), base_of(base, difference), join_of(joins));
  return {std::move(parcel), std::move(ticket)};
}

using PageOffsets = PageNumbers<std::uint64_t>;

std::pair<std::shared_ptr<Parcel>, std::shared_ptr<Ticket>> offload_pages(
    const Host& self, const PageOffsets& sources, const PageOffsets& sizes,
    std::optional<Codec> codec, Dtype dtype, int dimensionality, std::uintptr_t stream,
    bool joins) {
  require_as_many(sources, sizes);
  const auto channel = self.get();
  const nb::gil_scoped_release released;
  std::vector<lanescope::compress::Page> pages;
  pages.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i)
    pages.push_back({pointer_of<const std::byte>(numbers_of(sources)[i]), numbers_of(sizes)[i]});
  auto [parcel, ticket] =
      channel->offload_pages(pages, choice_of(codec, dtype, dimensionality, UpdateKind::none),
                             pointer_of<CUstream_st>(stream), join_of(joins));
  return {std::move(parcel), std::move(ticket)};
}

std::shared_ptr<Ticket> restore(const Host& self, const std::shared_ptr<Parcel>& parcel,
                                std::uintptr_t target, std::uintptr_t stream, std::uintptr_t base,
                                bool joins) {
  const auto channel = self.get();
  const nb::gil_scoped_release released;
  return channel->restore(parcel, pointer_of<std::byte>(target), pointer_of<CUstream_st>(stream),
                          parcel->is_update() ? pointer_of<const std::byte>(base) : nullptr,
                          join_of(joins));
}

std::shared_ptr<Ticket> restore_parts(const Host& self, const std::shared_ptr<Parcel>& parcel,
                                      const PageOffsets& offsets, const PageOffsets& sizes,
                                      const PageOffsets& targets, std::uintptr_t stream) {
  require_as_many(offsets, sizes);
  require_as_many(targets, sizes);
  const auto channel = self.get();
  const nb::gil_scoped_release released;
  std::vector<lanescope::compress::ParcelPart> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    parts.push_back({numbers_of(offsets)[i], numbers_of(sizes)[i],
                     pointer_of<std::byte>(numbers_of(targets)[i])});
  return channel->restore_parts(parcel, parts, pointer_of<CUstream_st>(stream));
}

std::shared_ptr<Ticket> restore_blocks(const Host& self, const std::shared_ptr<Parcel>& parcel,
                                       const PageNumbers<std::uint32_t>& blocks,
                                       std::uintptr_t target, std::uintptr_t stream) {
  const auto channel = self.get();
  const nb::gil_scoped_release released;
  return channel->restore_blocks(parcel, numbers_of(blocks), pointer_of<std::byte>(target),
                                 pointer_of<CUstream_st>(stream));
}

using ParcelBytes = PageNumbers<std::uint8_t>;
using ParcelRoom = LentArray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ParcelView = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

std::shared_ptr<Parcel> load_parcel(const Host& self, const ParcelBytes& front,
                                    std::size_t stream_bytes) {
  const auto channel = self.get();
  const nb::gil_scoped_release released;
  return channel->load(std::as_bytes(numbers_of(front)), stream_bytes);
}

ParcelView front_of(Parcel& self, Dtype dtype) {
  auto front = std::make_unique<std::vector<std::byte>>();
  {
    const nb::gil_scoped_release released;
    *front = self.stream_front(dtype);
  }
  auto* data = reinterpret_cast<std::uint8_t*>(front->data());
  const std::size_t size = front->size();
  nb::capsule owner(front.release(),
                    [](void* at) noexcept { delete static_cast<std::vector<std::byte>*>(at); });
  return ParcelView(data, {size}, owner);
}

std::size_t copy_payloads(Parcel& self, std::size_t first, std::size_t last,
                          const ParcelRoom& out) {
  const nb::gil_scoped_release released;
  return self.copy_payloads(first, last, {reinterpret_cast<std::byte*>(out.data()), out.nbytes()});
}

/// The view keeps the parcel, not its memory: nobody evicts it while it is filled.
ParcelView room_of(const std::shared_ptr<Parcel>& self) {
  const auto room = self->payload_room();
  auto kept = std::make_unique<std::shared_ptr<Parcel>>(self);
  nb::capsule owner(kept.release(),
                    [](void* at) noexcept { delete static_cast<std::shared_ptr<Parcel>*>(at); });
  return ParcelView(reinterpret_cast<std::uint8_t*>(room.data()), {room.size()}, owner);
}

template <typename Kept>
void load(const Kept& self, Codec codec, Dtype dtype) {
  const auto channel = self.get();
  const nb::gil_scoped_release released;
  channel->load({codec, dtype, 1});
}

/// The codec that makes some blocks of an array in a GPU's memory smallest, and its dimensionality.
std::pair<Codec, int> choose_codec(int gpu, std::uintptr_t source, std::size_t bytes, Dtype dtype,
                                   std::uintptr_t stream) {
  const lanescope::ScopedDevice scope(gpu);
  const auto sample = lanescope::compress::sample_on_device(
      {pointer_of<const std::byte>(source), bytes}, pointer_of<CUstream_st>(stream));
  const Choice chosen = lanescope::compress::smallest(dtype, sample);
  return {chosen.codec, chosen.dimensionality};
}

/// The codec by which an update crosses soonest, over the host or not, and what its differences
/// are.
std::tuple<Codec, int, UpdateKind> choose_update(int gpu, std::uintptr_t source,
                                                 std::uintptr_t base, std::size_t bytes,
                                                 Dtype dtype, bool over_host,
                                                 std::uintptr_t stream) {
  const lanescope::ScopedDevice scope(gpu);
  const auto look = [&](std::uintptr_t array) {
    return lanescope::compress::sample_on_device({pointer_of<const std::byte>(array), bytes},
                                                 pointer_of<CUstream_st>(stream));
  };
  const double link = over_host ? lanescope::compress::kHostLink : lanescope::compress::kPeerLink;
  const Choice chosen = lanescope::compress::fastest_update(dtype, look(source), look(base), link);
  return {chosen.codec, chosen.dimensionality, chosen.difference};
}

using Sized = std::tuple<Codec, int, double, UpdateKind>;

std::optional<std::vector<Sized>> sizes_of(lanescope::compress::Looker& looker) {
  const auto found = looker.take();
  if (!found) return {};
  std::vector<Sized> sizes;
  for (const auto& one : *found)
    sizes.emplace_back(one.codec, one.dimensionality, one.share, one.difference);
  return sizes;
}

void bind_looker(nb::module_& module) {
  using lanescope::compress::Looker;
  nb::class_<Looker>(module, "Looker", "Looks at blocks of arrays in a GPU's memory.")
      .def(nb::init<>())
      .def_prop_ro("is_free", &Looker::is_free)
      .def(
          "begin",
          [](Looker& looker, int gpu, std::uintptr_t source, std::size_t bytes, Dtype dtype,
             std::optional<Codec> codec, std::uintptr_t stream, std::uintptr_t base) {
            const lanescope::ScopedDevice scope(gpu);
            looker.begin({pointer_of<const std::byte>(source), bytes}, dtype, codec,
                         pointer_of<CUstream_st>(stream), pointer_of<const std::byte>(base));
          },
          "gpu"_a, "source"_a, "bytes"_a, "dtype"_a, "codec"_a.none(), "stream"_a, "base"_a = 0,
          Released(), "Have blocks copied behind what is on a stream, and those of a base.")
      .def(
          "take", &sizes_of, Released(),
          "Of each codec its dimensionality and what it leaves of them, or of their differences of "
          "a kind, once they are there.");
}

void bind_ticket(nb::module_& module) {
  nb::class_<Ticket>(module, "Ticket", "A transfer on its way, and what became of it.")
      .def("done", &Ticket::done, Released(), "Whether it has ended, well or not.")
      .def("wait", &Ticket::wait, "patience_s"_a, Released(),
           "Return when it has ended; an error if a block came in damaged.")
      .def("damage", &Ticket::damage, Released(), "What came in damaged, once it is done; or ''.")
      .def_prop_ro("remedy", &Ticket::remedy, "What to do about damage.")
      .def_prop_ro("seconds", &Ticket::seconds, "By the device's clock, once it is done.")
      .def_prop_ro("wire_bytes", &Ticket::wire_bytes, "What crossed the link, once it is done.")
      .def_prop_ro("bytes", [](const Ticket& self) { return self.facts().bytes; })
      .def_prop_ro("compressed", [](const Ticket& self) { return self.facts().compressed; })
      .def_prop_ro("why_raw", [](const Ticket& self) { return self.facts().why_raw; });
}

void bind_device_channel(nb::module_& module) {
  nb::enum_<Via>(module, "Via", "Which way arrays go from one GPU to another.")
      .value("peer", Via::peer)
      .value("host", Via::host);
  nb::class_<Devices>(module, "DeviceChannel", "Arrays from one GPU to another, compressed.")
      .def(
          "__init__",
          [](Devices* self, int source, int target, std::size_t slab_bytes, int slots, int sms,
             double patience_s, Via via) {
            const nb::gil_scoped_release released;
            new (self) Devices(std::make_shared<DeviceChannel>(
                source, target, ChannelOptions{slab_bytes, slots, sms, patience_s}, via));
          },
          "source"_a, "target"_a, "slab_bytes"_a, "slots"_a, "sms"_a, "patience_s"_a, "via"_a)
      .def("send", &send, "source"_a, "target"_a, "bytes"_a, "codec"_a.none(), "dtype"_a,
           "dimensionality"_a, "source_stream"_a, "target_stream"_a,
           "difference"_a = UpdateKind::none, "base"_a = 0,
           "Send bytes between addresses, ordered behind and before two streams.")
      .def("load", &load<Devices>, "codec"_a, "dtype"_a, "Load a codec's kernels beforehand.")
      .def(
          "damage_next",
          [](const Devices& self, std::size_t block) { self.get()->damage_next(block); }, "block"_a,
          "For tests: damage a block of the next array.")
      .def("close", &Devices::close, "Wait for what is under way, and end the channel.");
}

void bind_host_channel(nb::module_& module) {
  nb::enum_<RestoreBy>(module, "RestoreBy", "How compressed arrays come back.")
      .value("mapped", RestoreBy::mapped)
      .value("staged", RestoreBy::staged);
  nb::class_<Parcel>(module, "Parcel", "An array in pinned memory of the host, maybe compressed.")
      .def_prop_ro("bytes", &Parcel::bytes)
      .def_prop_ro("compressed", [](const Parcel& self) { return self.choice().has_value(); })
      .def_prop_ro(
          "codec",
          [](const Parcel& self) { return self.choice() ? self.choice()->codec : Codec::raw; })
      .def_prop_ro("is_update", &Parcel::is_update)
      .def("stored_bytes", &Parcel::stored_bytes, Released(),
           "Bytes of what is stored; waits for the end of the offload.")
      .def_prop_ro("held_bytes", &Parcel::held_bytes, "Pinned memory that it holds.")
      .def("evict", &Parcel::evict, Released(), "Give the pinned memory back.")
      .def_prop_ro("evicted", &Parcel::evicted)
      .def("stream_front", &front_of, "dtype"_a,
           nb::sig("def stream_front(self, dtype: Dtype) -> Annotated[NDArray[numpy.uint8], "
                   "dict(shape=(None,))]"),
           "All before the payloads of its stream; waits for the end of the offload.")
      .def("copy_payloads", &copy_payloads, "first"_a, "last"_a, "out"_a.noconvert(),
           nb::sig("def copy_payloads(self, first: int, last: int, out: object) -> int"),
           "Copy the payloads of blocks as they stand in its stream; returns how many bytes.")
      .def("payload_room", &room_of,
           nb::sig("def payload_room(self) -> Annotated[NDArray[numpy.uint8], "
                   "dict(shape=(None,))]"),
           "Where the payloads of a stream that is loaded belong.")
      .def("damage", &Parcel::damage, "block"_a, Released(), "For tests: damage a block.")
      .def("exchange", &Parcel::exchange, "one"_a, "other"_a, Released(),
           "For tests: let two blocks change places.");
  nb::class_<Host>(module, "HostChannel", "Arrays to pinned memory of the host and back.")
      .def(
          "__init__",
          [](Host* self, int gpu, std::size_t slab_bytes, int slots, int sms, double patience_s,
             std::size_t piece_bytes, RestoreBy restore_by) {
            const nb::gil_scoped_release released;
            const HostChannelOptions options{
                {slab_bytes, slots, sms, patience_s}, piece_bytes, restore_by};
            new (self) Host(std::make_shared<HostChannel>(gpu, options));
          },
          "gpu"_a, "slab_bytes"_a, "slots"_a, "sms"_a, "patience_s"_a, "piece_bytes"_a,
          "restore_by"_a)
      .def("offload", &offload, "source"_a, "bytes"_a, "codec"_a.none(), "dtype"_a,
           "dimensionality"_a, "stream"_a, "difference"_a = UpdateKind::none, "base"_a = 0,
           "joins"_a = true,
           "Take an array away; returns it and its ticket. The stream waits for its end, or not "
           "before join.")
      .def("offload_pages", &offload_pages, "sources"_a, "sizes"_a, "codec"_a.none(), "dtype"_a,
           "dimensionality"_a, "stream"_a, "joins"_a = true,
           nb::sig("def offload_pages(self, sources: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], codec: Codec | None, dtype: Dtype, "
                   "dimensionality: int, stream: int, joins: bool = True) -> tuple[Parcel, "
                   "Ticket]"),
           "Take pages away as one array, read where they lie; otherwise as offload.")
      .def("restore", &restore, "parcel"_a, "target"_a, "stream"_a, "base"_a = 0, "joins"_a = true,
           "Bring an array back; joins as with offload.")
      .def(
          "join",
          [](const Host& self, Ticket& ticket, std::uintptr_t stream) {
            const auto channel = self.get();
            const nb::gil_scoped_release released;
            channel->join(ticket, pointer_of<CUstream_st>(stream));
          },
          "ticket"_a, "stream"_a, "Let a stream wait for the end of a transfer.")
      .def("load", &load<Host>, "codec"_a, "dtype"_a, "Load a codec's kernels beforehand.")
      .def("restore_parts", &restore_parts, "parcel"_a, "offsets"_a, "sizes"_a, "targets"_a,
           "stream"_a,
           nb::sig("def restore_parts(self, parcel: Parcel, offsets: "
                   "Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], sizes: "
                   "Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], "
                   "targets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), "
                   "writable=False)], stream: int) -> Ticket"),
           "Bring back parts of an array that is stored as it is, each to its address.")
      .def("restore_blocks", &restore_blocks, "parcel"_a, "blocks"_a, "target"_a, "stream"_a,
           nb::sig("def restore_blocks(self, parcel: Parcel, blocks: "
                   "Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)], target: "
                   "int, stream: int) -> Ticket"),
           "Bring back some blocks of a compressed array, one behind another.")
      .def("load_parcel", &load_parcel, "front"_a, "stream_bytes"_a,
           nb::sig("def load_parcel(self, front: Annotated[NDArray[numpy.uint8], "
                   "dict(shape=(None,), writable=False)], stream_bytes: int) -> Parcel"),
           "Pin memory for a stream of which all before the payloads is there.")
      .def(
          "trim",
          [](const Host& self, std::size_t keep_bytes) { return self.get()->trim(keep_bytes); },
          "keep_bytes"_a, Released(),
          "Give free pinned memory back to the system; returns how many bytes.")
      .def(
          "prepare", [](const Host& self, std::size_t bytes) { self.get()->prepare(bytes); },
          "bytes"_a, nb::call_guard<nb::gil_scoped_release>(), "Pin memory beforehand.")
      .def_prop_ro("pinned_bytes",
                   [](const Host& self) { return self.get()->arena().pinned_bytes(); })
      .def_prop_ro("taken_bytes",
                   [](const Host& self) { return self.get()->arena().taken_bytes(); })
      .def("close", &Host::close, "Wait for what is under way, and end the channel.");
}

}  // namespace

void bind_channel(nb::module_& module) {
  bind_looker(module);
  bind_ticket(module);
  bind_device_channel(module);
  bind_host_channel(module);
  module.def(
      "sms_that_fill",
      [](Via link, Codec codec, Dtype dtype) {
        return lanescope::compress::sms_that_fill(link, {codec, dtype, 1});
      },
      "link"_a, "codec"_a, "dtype"_a, "SMs that channels code on by themselves.");
  module.def(
      "reach_each_other",
      [](int one, int other) {
        int there = 0, back = 0;
        lanescope::check(cudaDeviceCanAccessPeer(&there, one, other), "cudaDeviceCanAccessPeer");
        lanescope::check(cudaDeviceCanAccessPeer(&back, other, one), "cudaDeviceCanAccessPeer");
        return there != 0 && back != 0;
      },
      "one"_a, "other"_a, "Whether two GPUs can be given access to each other's memory.");
  module.def("choose_update", &choose_update, "gpu"_a, "source"_a, "base"_a, "bytes"_a, "dtype"_a,
             "over_host"_a, "stream"_a, Released(),
             "The codec by which an array's differences to a base cross soonest, over the host or "
             "between GPUs, its dimensionality, and the kind of differences.");
  module.def("choose_codec", &choose_codec, "gpu"_a, "source"_a, "bytes"_a, "dtype"_a, "stream"_a,
             Released(),
             "The codec that makes some blocks of an array in a GPU's memory smallest, and its "
             "dimensionality.");
}
