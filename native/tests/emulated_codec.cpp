// Codes and decodes blocks as a group of a GPU's warps does, on the host. tests/native/ builds it,
// and compares what it makes with the host's streams.
//
//   emulated_codec encode CODEC DTYPE DIMENSIONALITY VERSION ARRAY FIRST  < values  >
//   entries, payloads
//   emulated_codec decode CODEC DTYPE DIMENSIONALITY VERSION ARRAY FIRST BYTES
//   < entries, payloads  > faults, values
//
//   emulated_codec encode ... KIND  < values, base  > entries, payloads, sums of the base
//   emulated_codec decode ... BYTES KIND  < entries, payloads, sums, base  > faults, values
//
// With a kind of update differences are coded, and put onto the base, in whose place the values
// then are. Codec and type are the numbers that streams have; blocks are bound to an array, where
// the first one has a number. A fault is 4 bytes for each block, 0 if none.

#include "emulated_bytes.hpp"

// After it:
#include <cstring>
#include <string>
#include <type_traits>

#include "compress/device_decode.cuh"
#include "compress/device_encode.cuh"
#include "compress/strips.hpp"

namespace lanescope::compress {

namespace {

struct Job {
  Codec codec;
  Dtype dtype;
  Settings settings;
  Binding binding;
  UpdateKind kind = UpdateKind::none;

  Differing differing() const { return Differing::of(kind, bytes_of(dtype)); }
};

std::size_t blocks_of(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

template <typename Strip, bool update>
void encode(const Job& job, const std::vector<std::byte>& given) {
  const std::vector<std::byte> values(
      given.begin(), given.begin() + static_cast<long>(given.size() / (update ? 2 : 1)));
  const std::size_t blocks = blocks_of(values.size());
  Exact in(values.size()), payloads(padded(values.size()));
  Exact base(given.size() - values.size()), differences(kBlockBytes);
  if (base.size > 0) std::memcpy(base.data, given.data() + values.size(), base.size);
  std::vector<unsigned long long> sums(update ? blocks : 0);
  using Shape = ShapeOf<Strip, update>;
  Exact staging(Shape::kEncodeBytes * kStrips);
  if (!values.empty()) std::memcpy(in.data, values.data(), values.size());
  std::vector<Entry> entries(blocks);
  unsigned long long used = 0;
  Sink sink{entries.data(), payloads.data, padded(values.size()), &used};
  sink.binding = job.binding;
  if (update) sink.taken = {base.data, job.differing(), sums.data(), differences.data};
  GroupShared shared{};
  emulated::Threads::only().run([&] {
    GroupEncoder<Strip, update> encoder{Group::mine(&shared), staging.data, sink, job.settings,
                                        static_cast<std::uint32_t>(bytes_of(job.dtype))};
    encoder.differences = differences.data;
    for (std::size_t i = 0; i < blocks; ++i)
      encoder.encode(in.data + i * kBlockBytes, block_bytes(values.size(), i), i, [] {});
  });
  write_all(entries.data(), blocks * sizeof(Entry));
  write_all(payloads.data, bytes_used(used));
  if (update) write_all(sums.data(), sums.size() * sizeof(unsigned long long));
}

template <typename Strip, bool update>
void decode(const Job& job, const std::vector<std::byte>& coded, std::size_t bytes) {
  using Shape = ShapeOf<Strip, update>;
  const std::size_t blocks = blocks_of(bytes);
  std::vector<unsigned long long> sums(update ? blocks : 0);
  const std::size_t behind = update ? blocks * sizeof(unsigned long long) + bytes : 0;
  const std::size_t room = coded.size() - blocks * sizeof(Entry) - behind;
  std::vector<Entry> entries(blocks);
  std::memcpy(entries.data(), coded.data(), blocks * sizeof(Entry));
  Exact payloads(room), out(bytes);
  std::memcpy(payloads.data, coded.data() + blocks * sizeof(Entry), room);
  Exact kept(kBlockBytes);
  Fault of_base{};
  PutBase put{};
  if (update) {
    const std::byte* from = coded.data() + coded.size() - behind;
    std::memcpy(sums.data(), from, blocks * sizeof(unsigned long long));
    std::memcpy(out.data, from + blocks * sizeof(unsigned long long), bytes);
    put = {out.data, job.differing(), sums.data(), kept.data, &of_base};
  }
  std::vector<std::unique_ptr<Exact>> staging;
  for (std::size_t i = 0; i < kStrips; ++i)
    staging.push_back(std::make_unique<Exact>(Shape::kDecodeBytes));
  std::vector<Wrong> wrong(blocks);
  GroupShared shared{};
  emulated::Threads::only().run([&] {
    const Group group = Group::mine(&shared);
    GroupDecoder<Strip, update> decoder{group,
                                        staging[group.warp]->data,
                                        payloads.data,
                                        room,
                                        job.settings,
                                        static_cast<std::uint32_t>(bytes_of(job.dtype)),
                                        job.binding,
                                        0,
                                        put};
    for (std::size_t i = 0; i < blocks; ++i) {
      const Wrong found =
          decoder.decode(entries[i], out.data + i * kBlockBytes, block_bytes(bytes, i), i);
      if (group.leads()) wrong[i] = found;
    }
  });
  write_all(wrong.data(), blocks * sizeof(Wrong));
  write_all(out.data, bytes);
}

int run(int count, char** arguments) {
  if (count < 8) return 1;
  const auto version = static_cast<std::uint32_t>(std::atoi(arguments[5]));
  const bool encodes = std::string(arguments[1]) == "encode";
  const int kind_at = encodes ? 8 : 9;
  const Job job{static_cast<Codec>(std::atoi(arguments[2])),
                static_cast<Dtype>(std::atoi(arguments[3])),
                {std::atoi(arguments[4]), version},
                {std::strtoull(arguments[6], nullptr, 10), std::strtoull(arguments[7], nullptr, 10),
                 version >= kFirstBoundVersion},
                static_cast<UpdateKind>(count > kind_at ? std::atoi(arguments[kind_at]) : 0)};
  const auto given = read_all();
  const auto go = [&]<typename Strip>(Strip) {
    const auto go_on = [&]<bool update>(std::bool_constant<update>) {
      if (encodes)
        encode<Strip, update>(job, given);
      else
        decode<Strip, update>(job, given, std::strtoull(arguments[8], nullptr, 10));
    };
    job.kind == UpdateKind::none ? go_on(std::false_type()) : go_on(std::true_type());
  };
  if (!with_strip(job.codec, job.dtype, go)) go(NoStrip{});
  return 0;
}

}  // namespace

}  // namespace lanescope::compress

int main(int count, char** arguments) {
  return lanescope::compress::run(count, arguments);
}
