#include "compress/host_codec.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "compress/host_strips.hpp"
#include "compress/nvcomp_chunk.hpp"
#include "compress/warp.hpp"
#include "error.hpp"
#include "host/parallel.hpp"

namespace lanescope::compress {

namespace {

constexpr std::size_t kLeastBlocks = 4;  // a thread, which takes some 50 us to begin

struct Stored {
  BlockMode mode = BlockMode::raw;
  std::size_t payload_bytes = 0;
};

using Bytes = std::span<const std::byte>;

Bytes block_of(Bytes data, std::size_t block) {
  const std::size_t begin = block * kBlockBytes;
  return data.subspan(begin, std::min(kBlockBytes, data.size() - begin));
}

/// Memory for the words of a strip: blocks of callers may lie anywhere.
struct alignas(16) Aligned {
  std::byte bytes[kBlockBytes];
};

bool is_constant(Bytes block, std::size_t value_bytes) {
  return block.size() > value_bytes &&
         std::memcmp(block.data(), block.data() + value_bytes, block.size() - value_bytes) == 0;
}

/// Compresses the blocks of one thread.
class Compressor {
 public:
  Compressor(const Choice& choice, const Binding& binding)
      : kind_{choice.codec, choice.dtype, choice.dimensionality},
        value_bytes_(bytes_of(choice.dtype)),
        binding_(binding),
        differing_(Differing::of(choice.difference, value_bytes_)) {}

  /// What is stored of a block: the differences of an update, until the next call.
  Bytes stored_of(Bytes block, const std::byte* base) {
    if (differing_.kind == UpdateKind::none) return block;
    if (differences_ == nullptr) differences_ = std::make_unique<Aligned>();
    take_differences(differing_, block, base, differences_->bytes);
    return {differences_->bytes, block.size()};
  }

  /// What stands for a block.
  Descriptor describe(std::size_t number, Bytes block, const Stored& stored) const {
    return Descriptor::of(
        stored.mode, stored.payload_bytes,
        strips_.checksum(block.data(), block.size(), checksum_place(binding_, number)));
  }

  /// Writes a block's payload to `out`, which has room for the block as it is.
  Stored store(Bytes block, std::byte* out) {
    if (is_constant(block, value_bytes_)) {
      std::memcpy(out, block.data(), value_bytes_);
      return {BlockMode::constant, value_bytes_};
    }
    if (kind_.codec != Codec::raw && block.size() % value_bytes_ == 0) {
      const std::size_t used = code(block);
      if (padded(used) < padded(block.size())) {
        std::memcpy(out, coded_.get(), used);
        return {BlockMode::coded, used};
      }
    }
    std::memcpy(out, block.data(), block.size());
    return {BlockMode::raw, block.size()};
  }

 private:
  std::size_t code(Bytes block) {
    if (coded_ == nullptr) coded_ = std::make_unique<std::byte[]>(kMostPayloadBytes);
    const std::byte* in = block.data();
    if (reinterpret_cast<std::uintptr_t>(in) % alignof(Aligned) != 0) {
      if (copy_ == nullptr) copy_ = std::make_unique<Aligned>();
      std::memcpy(copy_->bytes, in, block.size());
      in = copy_->bytes;
    }
    return strips_.encode(kind_, in, block.size(), coded_.get());
  }

  const HostStrips& strips_ = host_strips();
  StripKind kind_;
  std::size_t value_bytes_;
  Binding binding_;
  Differing differing_;
  std::unique_ptr<std::byte[]> coded_;
  std::unique_ptr<Aligned> copy_, differences_;
};

[[noreturn]] void refuse(std::size_t block, const std::string& what) {
  throw Error("decompress", 0, "bad block", "block " + std::to_string(block) + ": " + what);
}

/// Decompresses the blocks of one thread.
class Decompressor {
 public:
  explicit Decompressor(const Layout& layout)
      : layout_(layout),
        kind_{layout.header.codec, layout.header.dtype, layout.header.dimensionality,
              layout.header.version},
        differing_(Differing::of(layout.header.difference(), bytes_of(layout.header.dtype))) {}

  /// The payload comes with what fills it up, and of an update the base of the block.
  void restore_onto(std::size_t number, Bytes whole, const std::byte* base,
                    std::span<std::byte> block) {
    if (differing_.kind == UpdateKind::none) return restore_padded(number, whole, block);
    const auto differences = check(number, whole, block.size());
    put_differences(differing_, differences, base, block.data());
  }

  /// The differences of a block, until the next call.
  Bytes check(std::size_t number, Bytes whole, std::size_t bytes) {
    if (differences_ == nullptr) differences_ = std::make_unique<Aligned>();
    restore_padded(number, whole, {differences_->bytes, bytes});
    return {differences_->bytes, bytes};
  }

  /// The payload comes with what fills it up.
  void restore_padded(std::size_t number, Bytes whole, std::span<std::byte> block) {
    const std::size_t size = layout_.blocks[number].payload_bytes();
    for (const std::byte one : whole.subspan(size))
      if (one != std::byte{0}) refuse(number, "there is something behind its payload");
    restore(number, whole.first(size), block);
  }

 private:
  void restore(std::size_t number, Bytes payload, std::span<std::byte> block) {
    switch (static_cast<BlockMode>(layout_.blocks[number].mode())) {
      case BlockMode::raw:
        if (payload.size() != block.size()) refuse(number, "it is stored as it is, and not whole");
        std::memcpy(block.data(), payload.data(), block.size());
        break;
      case BlockMode::constant:
        if (payload.size() != bytes_of(layout_.header.dtype) || payload.size() > block.size())
          refuse(number, "it repeats one value, and its payload is none");
        fill(payload, block);
        break;
      case BlockMode::coded:
        decode(number, payload, block);
        break;
      default:
        refuse(number, "it is stored in a way that this lanescope does not know");
    }
    const std::uint64_t place = checksum_place(layout_.binding, number);
    if (strips_.checksum(block.data(), block.size(), place) != layout_.blocks[number].checksum)
      refuse(number, "its checksum does not fit: it was changed after it was compressed");
  }

  static void fill(Bytes value, std::span<std::byte> block) {
    // each copy doubles what is there
    std::memcpy(block.data(), value.data(), value.size());
    for (std::size_t done = value.size(); done < block.size(); done *= 2)
      std::memcpy(block.data() + done, block.data(), std::min(done, block.size() - done));
  }

  void decode(std::size_t number, Bytes payload, std::span<std::byte> block) {
    if (by_nvcomp(kind_.codec)) refuse_chunk(number, payload, block.size());
    std::byte* out = block.data();
    const bool aligned = reinterpret_cast<std::uintptr_t>(out) % alignof(Aligned) == 0;
    if (!aligned && copy_ == nullptr) copy_ = std::make_unique<Aligned>();
    if (!aligned) out = copy_->bytes;
    const bool good = block.size() % bytes_of(kind_.dtype) == 0 &&
                      strips_.decode(kind_, payload.data(), payload.size(), out, block.size());
    if (good && !aligned) std::memcpy(block.data(), out, block.size());
    if (!good)
      refuse(number, "its payload is not what the codec makes of " + std::to_string(block.size()) +
                         " bytes");
  }

  /// What nvCOMP coded, the host can look at, and not decode.
  [[noreturn]] void refuse_chunk(std::size_t number, Bytes payload, std::size_t bytes) const {
    if (const char* wrong = fault_of_chunk(payload, kind_.codec, kind_.dtype, bytes))
      refuse(number, wrong);
    throw Error("decompress", 0, "no nvcomp", needs_nvcomp(kind_.codec));
  }

  const HostStrips& strips_ = host_strips();
  const Layout& layout_;
  StripKind kind_;
  Differing differing_;
  std::unique_ptr<Aligned> copy_, differences_;
};

/// Calls `go` with a decompressor, the number of a block, and its payload with what fills it up.
template <typename Go>
void for_blocks(const Layout& layout, Bytes stream, int threads, Go go) {
  in_parallel(
      layout.blocks.size(), kLeastBlocks,
      [&](std::size_t first, std::size_t last) {
        Decompressor decompressor(layout);
        for (std::size_t i = first; i < last; ++i)
          go(decompressor, i,
             stream.subspan(layout.offsets[i], padded(layout.blocks[i].payload_bytes())));
      },
      static_cast<std::size_t>(std::max(threads, 0)));
}

}  // namespace

void require_possible(const Choice& choice) {
  if (choice.dimensionality < 1 || choice.dimensionality > kLanes)
    throw Error("compress", 0, "bad choice",
                "a dimensionality of " + std::to_string(choice.dimensionality) +
                    " is not 1 to 32, as GFC has it");
  if (by_nvcomp(choice.codec)) throw Error("compress", 0, "no nvcomp", needs_nvcomp(choice.codec));
  if (!takes(choice.codec, choice.dtype))
    throw Error("compress", 0, "bad choice", "this codec does not take values of this type");
}

Header header_of(const Choice& choice, std::size_t bytes, std::span<const std::uint64_t> shape) {
  if (!can_mean(choice.meaning, choice.dtype, shape))
    throw Error("compress", 0, "bad values", "values of this type and shape cannot mean that");
  Header header;
  header.version = choice.meaning == Meaning::plain ? kVersion : kMeaningVersion;
  header.meaning = choice.meaning;
  if (choice.difference != UpdateKind::none) {
    header.version = kUpdateVersion;
    header.number[0] = static_cast<std::uint8_t>(choice.difference);
  }
  header.codec = choice.codec;
  header.dtype = choice.dtype;
  header.dimensionality = static_cast<std::uint8_t>(choice.dimensionality);
  header.bytes = bytes;
  header.blocks = static_cast<std::uint32_t>(blocks_of(bytes));
  header.dimensions = static_cast<std::uint8_t>(shape.size());
  return header;
}

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
  constexpr std::less<const std::byte*> before;  // of any two addresses
  return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

void require_apart_to_compress(Bytes array, Bytes out) {
  if (overlap(array, out))
    throw Error("compress", 0, "bad values",
                "the array and the memory for its stream overlap; give other memory");
}

void require_apart_to_decompress(Bytes stream, Bytes out) {
  if (overlap(stream, out))
    throw Error("decompress", 0, "no room",
                "the stream and the memory for its array overlap; give other memory");
}

std::size_t most_stream_bytes(std::size_t bytes, std::size_t dimensions) {
  const std::size_t blocks = blocks_of(bytes);
  return front_bytes(dimensions, blocks) + padded(bytes);
}

std::size_t compress_on_host(const Choice& choice, std::span<const std::byte> data,
                             std::span<const std::uint64_t> shape, std::span<std::byte> out,
                             int threads, Base base) {
  require_possible(choice);
  if (shape.size() > kMostDimensions)
    throw Error("compress", 0, "bad shape", "an array has more than 16 dimensions");
  Header header = header_of(choice, data.size(), shape);
  const bool is_update = choice.difference != UpdateKind::none;
  const std::size_t most = most_stream_bytes(data.size(), header.words());
  if (out.size() < most)
    throw Error("compress", 0, "no room", "the stream has less room than it may need");
  require_apart_to_compress(data, out.first(most));
  if (is_update) {
    require_base_of(data.size(), base);
    require_apart_to_compress(*base, out.first(most));
  }
  const auto words = words_behind(header, is_update ? sum_on_host(*base, threads) : 0, shape);
  const Binding binding = binding_of(header, words);
  const std::size_t blocks = blocks_of(data.size());
  const std::size_t front = front_bytes(words.size(), blocks);
  std::vector<Descriptor> descriptors(blocks);
  // Each thread packs its own blocks where the first of them would begin at the latest.
  struct Part {
    std::size_t first, bytes;
  };
  std::vector<Part> parts(blocks, Part{0, 0});
  in_parallel(
      blocks, kLeastBlocks,
      [&](std::size_t first, std::size_t last) {
        Compressor compressor(choice, binding);
        std::size_t end = front + first * kBlockBytes;
        for (std::size_t i = first; i < last; ++i) {
          const Bytes block = compressor.stored_of(
              block_of(data, i), is_update ? base->data() + i * kBlockBytes : nullptr);
          const Stored stored = compressor.store(block, out.data() + end);
          descriptors[i] = compressor.describe(i, block, stored);
          const std::size_t whole = padded(stored.payload_bytes);
          std::memset(out.data() + end + stored.payload_bytes, 0, whole - stored.payload_bytes);
          end += whole;
        }
        if (first < last) parts[first] = {first, end - (front + first * kBlockBytes)};
      },
      static_cast<std::size_t>(std::max(threads, 0)));
  std::size_t end = front;
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;
    const std::byte* packed = out.data() + front + part.first * kBlockBytes;
    if (packed != out.data() + end) std::memmove(out.data() + end, packed, part.bytes);
    end += part.bytes;
  }
  header.stored_bytes = end;
  seal(header, words, descriptors);
  std::memset(out.data(), 0, front);
  std::memcpy(out.data(), &header, sizeof header);
  if (!words.empty()) std::memcpy(out.data() + sizeof header, words.data(), 8 * words.size());
  if (blocks > 0)
    std::memcpy(out.data() + head_bytes(words.size()), descriptors.data(),
                blocks * sizeof(Descriptor));
  return end;
}

void require_room(const Layout& layout, std::size_t bytes) {
  if (bytes == layout.header.bytes) return;
  throw Error("decompress", 0, "no room",
              "the stream holds " + std::to_string(layout.header.bytes) +
                  " bytes, and there is room for " + std::to_string(bytes));
}

void restore_block(const Layout& layout, std::size_t block, std::span<const std::byte> payload,
                   std::span<std::byte> out) {
  Decompressor(layout).restore_padded(block, payload, out);
}

void decompress_on_host(const Layout& layout, std::span<const std::byte> stream,
                        std::span<std::byte> out, int threads, Base base) {
  require_room(layout, out.size());
  require_apart_to_decompress(stream, out);
  require_base(layout, base, out);
  if (base) require_sum(layout, sum_on_host(*base, threads));
  if (base && base->data() == out.data())  // it stays whole where a block is damaged
    for_blocks(layout, stream, threads,
               [&](Decompressor& decompressor, std::size_t i, Bytes payload) {
                 decompressor.check(i, payload, bytes_of_block(out.size(), i));
               });
  for_blocks(layout, stream, threads,
             [&](Decompressor& decompressor, std::size_t i, Bytes payload) {
               const std::size_t begin = i * kBlockBytes;
               decompressor.restore_onto(i, payload, base ? base->data() + begin : nullptr,
                                         out.subspan(begin, bytes_of_block(out.size(), i)));
             });
}

}  // namespace lanescope::compress
