// What the library for C++ adds to channels, over a pretended CUDA runtime with kernels that store
// each block as it is: who is asked and told, what is refused, and what becomes of damage.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/checksum.hpp"
#include "compress/device_kernels.hpp"
#include "lanescope/compression.hpp"
#include "pretended_cuda.hpp"
#include "pretended_pages.hpp"
#include "pretended_updates.hpp"

namespace {

std::map<const void*, int> gpus_of;  // arrays in GPUs' memory
bool damages = false;                // what is decoded

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* told, const void* at) {
  const auto found = gpus_of.find(at);
  told->type = found == gpus_of.end() ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
  told->device = found == gpus_of.end() ? -1 : found->second;
  return cudaSuccess;
}

}  // extern "C"

namespace lanescope::compress {

void load_kernels(const Choice&) {}

void encode_blocks(const Choice& choice, const Values& values, std::size_t bytes, const Sink& sink,
                   int, cudaStream_t stream) {
  require_possible(choice);
  pretended::put(stream, [=, data = values.data] {
    for (std::size_t at = 0, block = 0; at < bytes; at += kBlockBytes, ++block) {
      const std::size_t size = std::min(kBlockBytes, bytes - at);
      std::memcpy(sink.payloads + at, data + at, size);
      if (const std::byte* base = sink.taken.base; base != nullptr) {
        if (sink.taken.sums != nullptr) sink.taken.sums[block] = checksum_sum(base + at, size);
        take_differences(sink.taken.differing, {data + at, size}, base + at, sink.payloads + at);
      }
      sink.entries[block] = {Descriptor::of(BlockMode::raw, size, checksum_of(data + at, size)),
                             at};
    }
    *sink.used = padded(bytes);
    if (sink.progress.taken != nullptr) *sink.progress.taken = sink.progress.mark;
    if (sink.progress.stored == nullptr) return;
    std::fill_n(sink.progress.stored, (bytes + kBlockBytes - 1) / kBlockBytes, sink.progress.mark);
  });
}

void decode_blocks(const Choice&, const Binding&, const Entry* entries, const std::byte* payloads,
                   std::size_t, std::byte* out, std::size_t bytes, Fault* fault, int,
                   cudaStream_t stream, const Arrival&) {
  pretended::put(stream, [=] {
    for (std::size_t at = 0, block = 0; at < bytes; at += kBlockBytes, ++block)
      std::memcpy(out + at, payloads + entries[block].offset, std::min(kBlockBytes, bytes - at));
    if (damages) *fault = {1, 1, 2};
  });
}

void decode_onto_base(const Choice&, const Binding&, const Entry* entries,
                      const std::byte* payloads, std::size_t, const PutBase& put, std::byte* out,
                      std::size_t bytes, Fault*, int, cudaStream_t stream, const Arrival&) {
  pretended::put(stream, [=] {
    for (std::size_t at = 0, block = 0; at < bytes; at += kBlockBytes, ++block) {
      const std::size_t size = std::min(kBlockBytes, bytes - at);
      if (checksum_sum(put.base + at, size) == put.sums[block])
        put_differences(put.differing, {payloads + entries[block].offset, size}, put.base + at,
                        out + at);
      else
        *put.fault = {1, 1, kOtherBase};
    }
  });
}

void decode_chosen_blocks(const Choice&, const Binding&, const Entry*, const std::byte*,
                          std::size_t, std::byte*, std::size_t, const Chosen&, Fault*, int,
                          cudaStream_t) {
  require(false, "nobody asks for blocks");
}

}  // namespace lanescope::compress

namespace lanescope::compression {
namespace {

/// An array of 32-bit values that count up; they get smaller by `delta`.
struct Array {
  Array(int gpu, std::size_t values, std::int32_t step) : count(values) {
    void* at = nullptr;
    cudaMalloc(&at, count * sizeof(std::int32_t));
    data = static_cast<std::int32_t*>(at);
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<std::int32_t>(i) * step;
    gpus_of[data] = gpu;
  }
  ~Array() {
    pretended::let_all_happen();
    gpus_of.erase(data);
    cudaFree(data);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::span<std::byte> bytes() const { return std::as_writable_bytes(std::span(data, count)); }
  bool is(const Array& other) const {
    return std::memcmp(data, other.data, count * sizeof *data) == 0;
  }

  std::int32_t* data;
  std::size_t count;
};

/// Says what it was told to, and notes what it is told.
class Noting final : public Decider {
 public:
  Decision decide(const Transfer&) override { return {compress, std::nullopt, 1, "asked"}; }
  void learn(const Transfer& transfer, const Decision& decision, const Outcome& outcome) override {
    require(outcome.compressed == decision.compress, "an outcome is not as decided");
    told.push_back(transfer.tag);
  }

  bool compress = true;
  std::vector<std::string> told;
};

void refused(ErrorCode code, const std::string& part, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.code() == code && std::string(error.what()).find(part) != std::string::npos,
            std::string("another error: ") + error.what());
    return;
  }
  require(false, "nothing was refused where '" + part + "' was to be said");
}

constexpr std::size_t kValues = 50'000;

void send_and_tell() {
  const auto noting = std::make_shared<Noting>();
  const Array source(0, kValues, 3), target(1, kValues, 0);
  {
    GpuChannel channel(0, 1, {.decider = noting});
    const auto send = [&](const char* tag) {
      return channel.send(source.bytes(), target.bytes(), Dtype::int32, nullptr, nullptr, tag);
    };
    const Ticket first = send("one");
    require(first.transfer().path == "g0>g1" && first.transfer().tag == "one", "a transfer");
    require(first.decision().codec == Codec::delta, "the codec is not that of the sample");
    const Outcome outcome = first.wait();
    require(first.done() && outcome.compressed && outcome.bytes == 4 * kValues, "an outcome");
    require(target.is(source), "an array came out otherwise");
    require(noting->told.empty(), "it was told before the next call");
    noting->compress = false;
    const Ticket second = send("two");
    require(noting->told == std::vector<std::string>{"one"}, "the first was not told");
    require(!second.wait().compressed && second.decision().codec == Codec::raw, "not raw");
    channel.synchronize();
    send("three");
  }
  require(noting->told == std::vector<std::string>{"one", "two", "three"}, "the end was not told");
}

/// Wants to look at each array, and notes what blocks became.
class Looking final : public Decider {
 public:
  Decision decide(const Transfer&) override { return {false, Codec::raw, 1, "as it is"}; }
  bool wants_sample(const Transfer&) override {
    ++wanted;
    return true;
  }
  void take_sample(const Transfer& transfer, std::span<const Sampled> sampled) override {
    for (const Sampled& one : sampled)
      if (one.codec == Codec::delta) noted.emplace_back(transfer.tag, one.wire_share);
  }

  int wanted = 0;
  std::vector<std::pair<std::string, double>> noted;
};

/// Blocks are those that the array has when it is sent, and nothing waits for them.
void look_at_blocks() {
  const auto looking = std::make_shared<Looking>();
  const Array even(0, kValues, 1), noise(0, kValues, 0), target(1, kValues, 0);
  for (std::size_t i = 0; i < kValues; ++i)
    noise.data[i] = static_cast<std::int32_t>(i * i * 2654435761U);
  HostChannel channel(0, {.decider = looking});
  auto all = std::vector{channel.offload(even.bytes(), Dtype::int32, nullptr, "even")};
  cudaMemcpyAsync(even.data, noise.data, 4 * kValues, cudaMemcpyDefault, nullptr);
  require(looking->noted.empty(), "a sample came before it was there");
  all[0].ticket.wait();
  const Array others(0, kValues, 1);
  for (const Array* array : {&others, &noise, &others}) {
    all.push_back(channel.offload(array->bytes(), Dtype::int32, nullptr, "later"));
    all.back().ticket.wait();
  }
  require(looking->noted.size() == 3 && looking->wanted == 4, "a look was left out");
  require(looking->noted[0].first == "even" && looking->noted[0].second < 0.5, "not as sent");
  require(looking->noted[2].second > 0.9, "another array's blocks");
}

void offload_and_restore() {
  for (const RestoreBy restore_by : {RestoreBy::staged, RestoreBy::mapped}) {
    const auto always = std::make_shared<Always>(true);
    HostChannel channel(1, {.decider = always, .codec = Codec::delta}, restore_by);
    channel.prepare(1 << 20);
    require(channel.pinned_bytes() >= 1 << 20, "nothing was pinned");
    const Array source(1, kValues, 7), target(1, kValues, 0), again(1, kValues, 0);
    const auto [parcel, ticket] = channel.offload(source.bytes(), Dtype::int32, nullptr, "kv");
    require(parcel.bytes() == 4 * kValues && parcel.dtype() == Dtype::int32, "a parcel");
    require(parcel.stored_bytes() > parcel.bytes(), "entries are not counted");
    require(ticket.wait().compressed, "not compressed");
    require(channel.restore(parcel, target.bytes(), nullptr).transfer().path == "host>g1", "path");
    HostChannel(1).restore(parcel, again.bytes(), nullptr).wait();
    channel.synchronize();
    require(target.is(source) && again.is(source), "an array came back otherwise");
  }
}

/// Many arrays leave as one, come back by a stream, and leave no memory behind.
void offload_pages() {
  const auto never = std::make_shared<Always>(false);
  HostChannel channel(0, {.decider = never});
  const std::size_t sizes[] = {16384, 4, 100'000, 25};
  std::vector<std::unique_ptr<Array>> arrays, others;
  std::vector<std::span<const std::byte>> pages;
  std::vector<std::span<std::byte>> places;
  for (const std::size_t size : sizes) {
    arrays.push_back(std::make_unique<Array>(0, size, 3));
    others.push_back(std::make_unique<Array>(0, size, 0));
    pages.push_back(arrays.back()->bytes());
    places.push_back(others.back()->bytes());
  }
  auto [parcel, ticket] = channel.offload_many(pages, Dtype::int32, nullptr, "kv");
  require(ticket.wait().bytes == 16 * (4096 + 1 + 25'000 + 7), "pages are not side by side");
  const auto stream = parcel.stream();
  require(describe(stream).bytes == parcel.bytes(), "a stream of something else");
  const auto plain = decompress(stream);
  require(std::memcmp(plain.data(), pages[0].data(), pages[0].size()) == 0, "another first page");
  parcel.evict();
  refused(ErrorCode::bad_input, "the parcel was evicted",
          [&] { channel.restore_many(parcel, places, nullptr); });
  pretended::let_all_happen();
  require(channel.trim() > 0 && channel.pinned_bytes() == 0, "memory was not given back");
  const Parcel loaded = channel.load(stream);
  require(loaded.bytes() == parcel.bytes() && loaded.dtype() == Dtype::int32, "a loaded parcel");
  channel.restore_many(loaded, places, nullptr).wait();
  pretended::let_all_happen();
  for (std::size_t i = 0; i < arrays.size(); ++i)
    require(others[i]->is(*arrays[i]), "a page came back otherwise");
  refused(ErrorCode::bad_input, "give one of as many for each page",
          [&] { channel.restore_many(loaded, std::span(places).first(2), nullptr); });
  auto cut = stream;
  cut.pop_back();
  refused(ErrorCode::damaged, "bytes and has", [&] { channel.load(cut); });
}

void refuse_what_cannot_be() {
  const Array here(0, kValues, 1), there(1, kValues, 0), less(1, 10, 0);
  std::vector<std::byte> host(4 * kValues);
  const auto bad = [](const std::string& part, const std::function<void()>& call) {
    refused(ErrorCode::bad_input, part, call);
  };
  bad("no type of values with the number 99",
      [&] { compress(host, {.dtype = static_cast<Dtype>(99)}); });
  bad("there is no GPU 2", [] { GpuChannel(0, 2); });
  bad("there is no GPU -1", [] { HostChannel(-1); });
  bad("slabs of 5 bytes", [] { GpuChannel(0, 1, {.slab_bytes = 5}); });
  bad("and not of channels", [] { GpuChannel(0, 1, {.codec = Codec::ans}); });
  bad("and not of channels", [] { HostChannel(0, {.codec = Codec::bitcomp}); });
  GpuChannel channel(0, 1);
  const auto send = [&](std::span<const std::byte> from, std::span<std::byte> to, Dtype dtype) {
    channel.send(from, to, dtype, nullptr, nullptr);
  };
  bad("40 bytes, and 200000 come", [&] { send(here.bytes(), less.bytes(), Dtype::int32); });
  bad("lies on GPU 1, not on GPU 0", [&] { send(there.bytes(), there.bytes(), Dtype::int32); });
  bad("does not lie in a GPU's memory", [&] { send(host, there.bytes(), Dtype::int32); });
  GpuChannel coded(0, 1, {.decider = std::make_shared<Always>(true), .codec = Codec::gfc});
  bad("does not take values",
      [&] { coded.send(here.bytes(), there.bytes(), Dtype::int32, nullptr, nullptr); });
}

void refuse_what_overlaps() {
  const auto bad = [](const std::function<void()>& call) {
    refused(ErrorCode::bad_input, "overlap; give", call);
  };
  constexpr std::size_t kBytes = 100'000;
  const std::size_t most = most_bytes(kBytes);
  std::vector<std::byte> memory(kBytes + 2 * most, std::byte{3});
  const std::span<std::byte> room(memory);
  const auto array = room.first(kBytes), behind = room.subspan(kBytes, most);
  for (const std::size_t begin : {std::size_t{0}, kBytes / 2, kBytes - 1})
    bad([&] { compress_into(array, room.subspan(begin, most)); });
  const auto stream = behind.first(compress_into(array, behind));
  for (const std::size_t begin : {std::size_t{1}, kBytes, kBytes + stream.size() - 1})
    bad([&] { decompress_into(stream, room.subspan(begin, kBytes)); });
  decompress_into(stream, array);
  const Array here(0, kValues, 1);
  GpuChannel channel(0, 0);
  bad([&] { channel.send(here.bytes(), here.bytes(), Dtype::int32, nullptr, nullptr); });
}

/// Differences to what the target holds travel, by both kinds of channels; another base stays.
void send_updates() {
  const auto always = std::make_shared<Always>(true);
  const Array old(0, kValues, 3), now(0, kValues, 3), there(1, kValues, 3), other(1, kValues, 4);
  for (std::size_t i = 0; i < kValues; i += 100) ++now.data[i];
  const Array same(1, kValues, 3);
  const std::string differs = "the base differs: GPU 1 holds another array";
  {
    GpuChannel channel(0, 1, {.decider = always});
    const auto send = [&](const Array& to) {
      return channel.send(now.bytes(), to.bytes(), Dtype::int32, nullptr, nullptr, "", old.bytes());
    };
    const Ticket sent = send(there);
    require(sent.transfer().path == "update g0>g1" && sent.wait().compressed, "an update");
    require(there.is(now), "an update came out otherwise");
    refused(ErrorCode::damaged, differs, [&] { send(other).wait(); });
    send(other);
    refused(ErrorCode::damaged, "; send the whole array", [&] { channel.synchronize(); });
    const Array as_before(1, kValues, 4);
    require(other.is(as_before), "another base was changed");
  }
  HostChannel out(0, {.decider = always}), in(1);
  const auto offload = out.offload(now.bytes(), Dtype::int32, nullptr, "", old.bytes());
  in.restore(offload.parcel, same.bytes(), nullptr, same.bytes()).wait();
  require(same.is(now), "an update came back otherwise");
  refused(ErrorCode::damaged, differs,
          [&] { in.restore(offload.parcel, other.bytes(), nullptr, other.bytes()).wait(); });
  const auto bad = [](const std::string& part, const std::function<void()>& call) {
    refused(ErrorCode::bad_input, part, call);
  };
  bad("give the same values as its base",
      [&] { in.restore(offload.parcel, same.bytes(), nullptr); });
  bad("the base has 40 bytes",
      [&] { out.offload(now.bytes(), Dtype::int32, nullptr, "", now.bytes().first(40)); });
  const auto whole = out.offload(now.bytes(), Dtype::int32, nullptr);
  bad("needs no base", [&] { in.restore(whole.parcel, same.bytes(), nullptr, same.bytes()); });
}

/// An update in the host's memory.
void update_streams() {
  const Array old(0, kValues, 3), now(0, kValues, 3);
  now.data[5] = -1;
  const auto stream = compress(now.bytes(), {.dtype = Dtype::int32, .base = old.bytes()});
  const StreamInfo info = describe(stream);
  require(info.update != UpdateKind::none && stream.size() < 10'000, "an update");
  const auto back = decompress(stream, 0, old.bytes());
  require(std::memcmp(back.data(), now.data, back.size()) == 0, "an update came out otherwise");
  refused(ErrorCode::bad_input, "none is given", [&] { decompress(stream); });
  refused(ErrorCode::bad_input, "the base is another one",
          [&] { decompress(stream, 0, now.bytes()); });
  decompress_into(stream, old.bytes(), 0, old.bytes());
  require(old.is(now), "an update in place");
}

/// The pretended clock says 1 ms of every transfer, and nothing becomes smaller although blocks
/// promise that: what is tried is no gain, and is left.
void let_the_rule_decide() {
  const Array source(0, 16 << 20, 3), target(1, 16 << 20, 0);
  GpuChannel channel(0, 1);
  std::string decided;
  for (int i = 0; i < 8; ++i) {
    const Ticket sent =
        channel.send(source.bytes(), target.bytes(), Dtype::int32, nullptr, nullptr, "grid");
    decided += sent.decision().compress ? 'z' : '-';
    require(sent.wait().compressed == sent.decision().compress, "another way than decided");
    require(target.is(source), "an array came out otherwise");
  }
  require(decided == "--z-----", "decided was " + decided);
}

void tell_damage_once() {
  const auto noting = std::make_shared<Noting>();
  const Array source(0, kValues, 1), target(1, kValues, 0);
  GpuChannel channel(0, 1, {.decider = noting, .codec = Codec::delta});
  const auto send = [&] {
    return channel.send(source.bytes(), target.bytes(), Dtype::int32, nullptr, nullptr);
  };
  const std::string said = "block 0 of 4 of the array that went from GPU 0 to GPU 1";
  damages = true;
  const Ticket waited = send();
  refused(ErrorCode::damaged, said, [&] { waited.wait(); });
  channel.synchronize();  // it is known
  send();
  pretended::let_all_happen();
  damages = false;
  refused(ErrorCode::damaged, "send it again", [&] { send(); });
  damages = true;
  send();
  refused(ErrorCode::damaged, said, [&] { channel.synchronize(); });
  damages = false;
  send().wait();
  channel.synchronize();
  require(noting->told.size() == 1, "what came in damaged taught something");
}

}  // namespace
}  // namespace lanescope::compression

int main() {
  namespace lc = lanescope::compression;
  pretended::seed(1);
  lc::send_and_tell();
  lc::look_at_blocks();
  lc::offload_and_restore();
  lc::offload_pages();
  lc::refuse_what_cannot_be();
  lc::refuse_what_overlaps();
  lc::send_updates();
  lc::update_streams();
  lc::let_the_rule_decide();
  lc::tell_damage_once();
  std::puts("all is as told");
}
