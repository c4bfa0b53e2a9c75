// Compresses arrays by a library that stands in for nvCOMP, over a pretended CUDA runtime on which
// what was put on a stream happens later, with the groups of our kernels on the host: streams come
// back, and no damaged chunk gets to the library, which would end the program. tests/native/ builds
// it with the sanitizers.
//
//   nvcomp_simulation LIBRARY ROUNDS SEED

#include "emulated_group.hpp"

// After it:
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "compress/device_codec.hpp"
#include "compress/gather_kernels.hpp"
#include "compress/nvcomp_group.cuh"
#include "compress/update_kernels.hpp"
#include "error.hpp"
#include "pretended_cuda.hpp"

namespace lanescope::compress {
namespace {

std::mt19937_64 random_bits;

std::size_t below(std::size_t count) {
  return random_bits() % count;
}

void require(bool holds, const std::string& what) {
  if (!holds) emulated::fail(what.c_str());
}

std::uint32_t block_bytes(std::size_t bytes, std::size_t block) {
  return static_cast<std::uint32_t>(std::min(kBlockBytes, bytes - block * kBlockBytes));
}

/// Lets a group do something, when the stream has got there.
void launch(cudaStream_t stream, std::function<void(const Group&)> step) {
  pretended::put(stream, [step = std::move(step)] {
    GroupShared shared{};
    emulated::Threads::only().run([&] { step(Group::mine(&shared)); });
  });
}

}  // namespace

// In place of the kernels' files.
void settle_blocks(const Settling& settling, cudaStream_t stream) {
  launch(stream, [=](const Group& group) {
    const BlockSettler settler{group, settling};
    for (std::size_t i = 0; i * kBlockBytes < settling.bytes; ++i)
      settler.settle(i, block_bytes(settling.bytes, i));
  });
}

void check_blocks(const Checking& checking, cudaStream_t stream) {
  launch(stream, [=](const Group& group) {
    BlockChecker checker{{group,
                          nullptr,
                          checking.payloads,
                          checking.room,
                          {},
                          checking.value_bytes,
                          checking.binding,
                          0},
                         checking};
    for (std::size_t i = 0; i * kBlockBytes < checking.bytes; ++i) {
      const bool good = checker.check(i, block_bytes(checking.bytes, i));
      if (group.leads() && !good) keep_first(checking.wrong, i, 0);
    }
  });
}

void check_decoded(const Checking& checking, const std::uint32_t* blocks, std::size_t count,
                   const std::size_t* out_bytes, const int* statuses, cudaStream_t stream) {
  launch(stream, [=](const Group& group) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bytes = block_bytes(checking.bytes, blocks[i]);
      const bool same = has_checksum(group, checking, blocks[i], bytes);
      if (group.leads() && (!same || statuses[i] != 0 || out_bytes[i] != bytes))
        keep_first(checking.wrong, blocks[i], statuses[i]);
    }
  });
}

void order_entries(const Entry* entries, std::size_t blocks, const Front& front,
                   std::uint64_t* offsets, cudaStream_t stream) {
  pretended::put(stream, [=] {
    if (blocks == 0) return;
    std::uint64_t end = 0, sum = front.sum;
    for (std::size_t i = 0; i < blocks; ++i) {
      front.descriptors[i] = entries[i].descriptor;
      sum += checksum_part(entries[i].descriptor.word(), front.place + i);
      offsets[i] = end;
      end += padded(entries[i].descriptor.payload_bytes());
    }
    *front.checksum = checksum_end(sum);
  });
}

// nvCOMP's codecs make no updates.
void sum_blocks(const std::byte*, std::size_t, unsigned long long*, cudaStream_t) {}
void take_differences(const Differing&, const std::byte*, const std::byte*, std::byte*, std::size_t,
                      cudaStream_t) {}
void put_differences(const Differing&, const std::byte*, const std::byte*, std::byte*, std::size_t,
                     const Fault*, const BaseCheck&, cudaStream_t) {}

void gather_payloads(const Entry* entries, std::size_t blocks, const std::byte* payloads,
                     const std::uint64_t* offsets, std::byte* out, cudaStream_t stream) {
  pretended::put(stream, [=] {
    for (std::size_t i = 0; i < blocks; ++i)
      std::memcpy(out + offsets[i], payloads + entries[i].offset,
                  padded(entries[i].descriptor.payload_bytes()));
  });
}

void encode_blocks(const Choice&, const Values&, std::size_t, const Sink&, int, cudaStream_t) {
  emulated::fail("a codec of ours was asked for");
}

void decode_blocks(const Choice&, const Binding&, const Entry*, const std::byte*, std::size_t,
                   std::byte*, std::size_t, Fault*, int, cudaStream_t, const Arrival&) {
  emulated::fail("a codec of ours was asked for");
}

namespace {

/// Blocks of few bytes that are not zero, of noise, and of one value.
std::vector<std::byte> array(std::size_t bytes, std::size_t value_bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t begin = 0; begin < bytes; begin += kBlockBytes) {
    const std::size_t end = std::min(bytes, begin + kBlockBytes), kind = below(4);
    for (std::size_t i = begin; i < end; ++i)
      values[i] = kind == 0       ? static_cast<std::byte>(random_bits())
                  : kind == 1     ? static_cast<std::byte>(i % value_bytes)
                  : below(4) == 0 ? static_cast<std::byte>(random_bits())
                                  : std::byte{0};
  }
  return values;
}

struct Case {
  Choice choice;
  std::vector<std::byte> values;
  std::vector<std::uint64_t> shape;
};

Case draw_case() {
  const auto codec = below(2) == 0 ? Codec::ans : Codec::bitcomp;
  const auto dtype = static_cast<Dtype>(below(12));
  const std::size_t each = bytes_of(dtype);
  const std::size_t lengths[] = {
      0, 1, 1023, 1024, kBlockBytes, kBlockBytes + 8, 3 * kBlockBytes + 5000, below(300'000)};
  const std::size_t count = (lengths[below(8)] + each - 1) / each;
  return {{codec, dtype, 1}, array(count * each, each), {count}};
}

/// What a stream is refused with, or nothing where it is taken.
std::string refused(std::span<const std::byte> stream, std::span<std::byte> out,
                    const Nvcomp& nvcomp) {
  try {
    decompress_through_device(0, stream, out, nvcomp);
  } catch (const Error& error) {
    require(error.name() == "bad stream" || error.name() == "bad block", error.what());
    return error.detail();
  }
  return "";
}

void damage(const Case& one, const std::vector<std::byte>& stream, const Nvcomp& nvcomp) {
  std::vector<std::byte> out(one.values.size());
  for (int round = 0; round < 12; ++round) {
    auto changed = stream;
    for (std::size_t i = 0; i <= below(2); ++i)
      changed[below(changed.size())] ^= static_cast<std::byte>(1 << below(8));
    if (changed == stream) continue;
    require(!refused(changed, out, nvcomp).empty(), "a damaged stream was taken");
  }
}

/// The stream with a table of blocks and a header that fit each other.
std::vector<std::byte> with_front(std::vector<std::byte> stream, Layout told) {
  seal(told.header, told.shape, told.blocks);
  std::memcpy(stream.data(), &told.header, sizeof told.header);
  std::memcpy(stream.data() + head_bytes(told.shape.size()), told.blocks.data(),
              told.blocks.size() * sizeof(Descriptor));
  return stream;
}

void round(const Nvcomp& nvcomp) {
  const Case one = draw_case();
  std::vector<std::byte> room(most_stream_bytes(one.values.size(), 1));
  const std::size_t length =
      compress_through_device(0, one.choice, one.values, one.shape, room, nvcomp);
  room.resize(length);
  const Layout layout = layout_of(room);
  require(layout.header.codec == one.choice.codec, "the codec is another one");
  std::vector<std::byte> out(one.values.size(), std::byte{0xA5});
  require(refused(room, out, nvcomp).empty(), "a stream is refused");
  require(out == one.values, "values are other ones");
  damage(one, room, nvcomp);

  // Values that are not what was compressed, though their chunk is what was coded.
  for (std::size_t i = 0; i < layout.blocks.size(); ++i) {
    if (layout.blocks[i].mode() != static_cast<std::uint8_t>(BlockMode::coded)) continue;
    Layout told = layout;
    told.blocks[i].checksum ^= 1;
    const std::string said = refused(with_front(room, told), out, nvcomp);
    require(said == "block " + std::to_string(i) +
                        ": its checksum does not fit: it was changed after it was compressed",
            said);
  }
}

}  // namespace
}  // namespace lanescope::compress

int main(int count, char** arguments) {
  if (count < 4) return 1;
  using namespace lanescope::compress;
  const Nvcomp nvcomp(arguments[1]);
  random_bits.seed(std::strtoull(arguments[3], nullptr, 10));
  pretended::seed(std::strtoull(arguments[3], nullptr, 10));
  for (int i = std::atoi(arguments[2]); i > 0; --i) round(nvcomp);
  std::puts("all came back");
  return 0;
}
