#include <algorithm>
#include <cstring>
#include <string>

#include "compress/checksum.hpp"
#include "compress/host_strips.hpp"
#include "compress/parcel.hpp"
#include "host/parallel.hpp"

// A parcel as a stream. Its payloads are those of a stream to the bit, and lie in another order;
// its blocks are bound to the number of the offload, which a header of version 5 carries.

namespace lanescope::compress {

namespace {

constexpr std::size_t kLeastBlocks = 16;  // a thread, which takes some 50 us to begin

std::size_t padded_bytes(std::span<const Descriptor> descriptors) {
  std::size_t sum = 0;
  for (const Descriptor& one : descriptors) sum += padded(one.payload_bytes());
  return sum;
}

void require_within(std::size_t block, std::size_t offset, std::size_t size, std::size_t room) {
  if (size <= kBlockBytes && offset <= room && padded(size) <= room - offset) return;
  throw Error("save", 0, "bad block",
              "block " + std::to_string(block) + " of the parcel does not lie in its memory");
}

}  // namespace

std::vector<Descriptor> Parcel::descriptors(const Binding& binding) const {
  const std::size_t count = blocks_of(bytes_);
  std::vector<Descriptor> found(count);
  if (!choice_) {
    in_parallel(count, kLeastBlocks, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const std::uint32_t size = bytes_of_block(bytes_, i);
        const std::byte* block = payloads() + i * kBlockBytes;
        found[i] = Descriptor::of(BlockMode::raw, size,
                                  host_strips().checksum(block, size, checksum_place(binding, i)));
      }
    });
    return found;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = entries()[i];
    require_within(i, entry.offset, entry.descriptor.payload_bytes(), room_);
    found[i] = entry.descriptor;
  }
  return found;
}

std::vector<std::byte> Parcel::stream_front(Dtype dtype) {
  if (is_update())
    throw Error("save", 0, "bad choice",
                "the parcel holds differences to a base, and cannot be saved; offload the array "
                "without a base");
  stored_bytes();
  const auto held = memory();
  if (!read_front_.empty()) return read_front_;
  Header header;
  header.dtype = dtype;
  if (choice_) {
    header.version = kNumberedVersion;
    header.codec = choice_->codec;
    header.dtype = choice_->dtype;
    header.dimensionality = static_cast<std::uint8_t>(choice_->dimensionality);
    put_number(header, number_);
  }
  header.bytes = bytes_;
  header.blocks = static_cast<std::uint32_t>(blocks_of(bytes_));
  header.dimensions = 1;
  if (bytes_ % bytes_of(header.dtype) != 0) header.dtype = Dtype::bytes;
  const std::uint64_t shape[] = {bytes_ / bytes_of(header.dtype)};
  const auto table = descriptors(binding_of(header, shape));
  const std::size_t front = compress::front_bytes(1, table.size());
  header.stored_bytes = front + padded_bytes(table);
  seal(header, shape, table);
  std::vector<std::byte> out(front);
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, shape, sizeof shape);
  if (!table.empty())
    std::memcpy(out.data() + head_bytes(1), table.data(), table.size() * sizeof(Descriptor));
  return out;
}

std::size_t Parcel::copy_payloads(std::size_t first, std::size_t last, std::span<std::byte> out) {
  stored_bytes();
  const auto held = memory();
  last = std::min(last, blocks_of(bytes_));
  if (first < last && (last - first) * kBlockBytes > out.size())
    throw Error("save", 0, "no room", "there is too little room for so many blocks");
  std::size_t end = 0;
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t offset = choice_ ? entries()[i].offset : i * kBlockBytes;
    const std::size_t size =
        choice_ ? entries()[i].descriptor.payload_bytes() : bytes_of_block(bytes_, i);
    require_within(i, offset, size, room_);
    std::memcpy(out.data() + end, payloads() + offset, size);
    std::memset(out.data() + end + size, 0, padded(size) - size);
    end += padded(size);
  }
  return end;
}

std::span<std::byte> Parcel::payload_room() {
  const auto held = memory();
  if (!held) return {};
  return {payloads(), room_};
}

}  // namespace lanescope::compress
