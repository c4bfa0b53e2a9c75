// What a group of a GPU's warps does with blocks that nvCOMP codes, on the host. nvCOMP itself is
// not there: the chunk of a block is made up by the test. tests/native/ builds it.
//
//   emulated_nvcomp settle CODEC DTYPE ARRAY SLOT BYTES
//     values and a slot for each block come in; bytes used, what failed, entries and slots come out
//   emulated_nvcomp check CODEC DTYPE ARRAY BYTES
//     entries and payloads come in; the lowest wrong block and values come out
//   emulated_nvcomp decoded CODEC DTYPE ARRAY BYTES
//     entries and values come in; 1 comes out for each block that is right
//
// Codec and type are the numbers that streams have. A slot that comes in begins with 8 bytes for
// the chunk's size, or for none, and 4 for nvCOMP's status; the chunk lies 16 bytes on.

#include "emulated_bytes.hpp"

// After it:
#include <algorithm>
#include <cstring>
#include <string>

#include "compress/nvcomp_group.cuh"

namespace lanescope::compress {

namespace {

struct Job {
  Codec codec;
  Dtype dtype;
  Binding binding;
  std::uint32_t value_bytes() const { return static_cast<std::uint32_t>(bytes_of(dtype)); }
};

void settle(const Job& job, const std::vector<std::byte>& given, std::size_t slot_bytes,
            std::size_t bytes) {
  const std::size_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  const Exact values(bytes, given.data());
  Exact slots(blocks * slot_bytes, given.data() + bytes);
  std::vector<std::size_t> sizes(blocks);
  std::vector<int> statuses(blocks);
  for (std::size_t i = 0; i < blocks; ++i) {
    std::memcpy(&sizes[i], slots.data + i * slot_bytes, sizeof sizes[i]);
    std::memcpy(&statuses[i], slots.data + i * slot_bytes + 8, sizeof statuses[i]);
  }
  std::size_t chunks = blocks;
  while (chunks > 0 && sizes[chunks - 1] == 0) --chunks;
  std::vector<Entry> entries(blocks);
  unsigned long long used = 0, failed = kNothingWrong;
  GroupShared shared{};
  emulated::Threads::only().run([&] {
    const BlockSettler settler{Group::mine(&shared),
                               {values.data, bytes, job.value_bytes(), sizes.data(),
                                statuses.data(), chunks, 6000, job.codec, job.dtype, entries.data(),
                                slots.data, slot_bytes, &used, &failed, job.binding}};
    for (std::size_t i = 0; i < blocks; ++i) settler.settle(i, block_bytes(bytes, i));
  });
  write_all(&used, sizeof used);
  write_all(&failed, sizeof failed);
  write_all(entries.data(), blocks * sizeof(Entry));
  write_all(slots.data, slots.size);
}

void check(const Job& job, const std::vector<std::byte>& given, std::size_t bytes) {
  const std::size_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  std::vector<Entry> entries(blocks);
  std::memcpy(entries.data(), given.data(), blocks * sizeof(Entry));
  const std::size_t room = given.size() - blocks * sizeof(Entry);
  const Exact payloads(room, given.data() + blocks * sizeof(Entry));
  Exact out(bytes);
  unsigned long long wrong = kNothingWrong;
  GroupShared shared{};
  emulated::Threads::only().run([&] {
    const Group group = Group::mine(&shared);
    const Checking checking{entries.data(),    payloads.data, room,  job.codec, job.dtype,
                            job.value_bytes(), out.data,      bytes, &wrong,    job.binding};
    BlockChecker checker{
        {group, nullptr, payloads.data, room, {}, job.value_bytes(), job.binding, 0}, checking};
    for (std::size_t i = 0; i < blocks; ++i) {
      const bool good = checker.check(i, block_bytes(bytes, i));
      if (group.leads() && !good) keep_first(&wrong, i, 0);
    }
  });
  write_all(&wrong, sizeof wrong);
  write_all(out.data, bytes);
}

void decoded(const Job& job, const std::vector<std::byte>& given, std::size_t bytes) {
  const std::size_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  std::vector<Entry> entries(blocks);
  std::memcpy(entries.data(), given.data(), blocks * sizeof(Entry));
  const Exact values(bytes, given.data() + blocks * sizeof(Entry));
  std::vector<std::uint8_t> right(blocks);
  GroupShared shared{};
  emulated::Threads::only().run([&] {
    const Group group = Group::mine(&shared);
    Checking checking{.entries = entries.data(), .out = values.data, .bytes = bytes};
    checking.binding = job.binding;
    for (std::size_t i = 0; i < blocks; ++i) {
      const bool same = has_checksum(group, checking, i, block_bytes(bytes, i));
      if (group.leads()) right[i] = same;
    }
  });
  write_all(right.data(), blocks);
}

int run(int count, char** arguments) {
  if (count < 6 || (std::string(arguments[1]) == "settle" && count < 7)) return 1;
  const std::string what = arguments[1];
  const Job job{static_cast<Codec>(std::atoi(arguments[2])),
                static_cast<Dtype>(std::atoi(arguments[3])),
                {std::strtoull(arguments[4], nullptr, 10)}};
  const std::size_t number = std::strtoull(arguments[5], nullptr, 10);
  const auto given = read_all();
  if (what == "settle") settle(job, given, number, std::strtoull(arguments[6], nullptr, 10));
  if (what == "check") check(job, given, number);
  if (what == "decoded") decoded(job, given, number);
  return 0;
}

}  // namespace

}  // namespace lanescope::compress

int main(int count, char** arguments) {
  return lanescope::compress::run(count, arguments);
}
