#include "compress/format.hpp"

#include <algorithm>
#include <cstring>

#include "compress/checksum.hpp"
#include "error.hpp"

namespace lanescope::compress {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error("decompress", 0, "bad stream", what);
}

bool are_zeros(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
}

template <typename T>
T read(std::span<const std::byte> stream, std::size_t offset) {
  T value;
  std::memcpy(&value, stream.data() + offset, sizeof value);
  return value;
}

bool is_bound(const Header& header) {
  return header.version >= kFirstBoundVersion;
}

/// The sum of parts of a header and the words behind it.
std::uint64_t sum_of_head(Header header, std::span<const std::uint64_t> words) {
  header.checksum = 0;
  std::vector<std::byte> head(head_bytes(words.size()));
  std::memcpy(head.data(), &header, sizeof header);
  if (!words.empty()) std::memcpy(head.data() + sizeof header, words.data(), words.size_bytes());
  return checksum_sum(head.data(), head.size());
}

std::uint32_t checksum_of_front(const Header& header, std::span<const std::uint64_t> words,
                                std::span<const Descriptor> descriptors) {
  if (!is_bound(header)) return checksum_end(sum_of_head(header, words));
  std::uint64_t sum = sum_before_descriptors(header, words);
  std::uint64_t place = first_descriptor_place(words.size());
  for (const Descriptor& one : descriptors) sum += checksum_part(one.word(), place++);
  return checksum_end(sum);
}

void check_numbers(const Header& header, std::size_t length) {
  if (header.magic != kMagic) refuse("it does not begin with LSCZ: these bytes are no stream");
  if (header.version < 1 || header.version > kUpdateVersion)
    refuse("it has version " + std::to_string(header.version) +
           "; this lanescope reads versions 1 to " + std::to_string(kUpdateVersion));
  const std::size_t used = header.version == kNumberedVersion ? sizeof header.number
                           : header.version >= kUpdateVersion ? 1
                                                              : 0;
  const bool zeros = std::all_of(std::begin(header.number) + used, std::end(header.number),
                                 [](std::uint8_t one) { return one == 0; });
  const bool has_meaning = header.version >= kMeaningVersion;
  if (!zeros || (!has_meaning && header.meaning != Meaning::plain))
    refuse("bytes of its header are used that its version leaves zero");
  const bool is_update = header.version >= kUpdateVersion;
  if (is_update && (header.difference() == UpdateKind::none || !is_known(header.difference())))
    refuse("what its blocks hold is no difference that this lanescope knows");
  if (header.dimensions > kMostDimensions) refuse("its shape has more dimensions than it can have");
  if (header.stored_bytes != length)
    refuse("it should have " + std::to_string(header.stored_bytes) + " bytes and has " +
           std::to_string(length));
  if (header.blocks != header.bytes / kBlockBytes + (header.bytes % kBlockBytes != 0))
    refuse("it has " + std::to_string(header.blocks) + " blocks for " +
           std::to_string(header.bytes) + " bytes");
}

void check_meaning(const Layout& layout) {
  const Header& header = layout.header;
  if (!is_known(header.codec) || !is_known(header.dtype))
    refuse("its codec or its type of values is none that this lanescope knows");
  if (header.dimensionality < 1 || header.dimensionality > 32)
    refuse("its dimensionality is " + std::to_string(header.dimensionality) + " and not 1 to 32");
  std::uint64_t values = 1, size = bytes_of(header.dtype);
  for (const std::uint64_t side : layout.shape)
    if (__builtin_mul_overflow(values, side, &values)) refuse("its shape is too large");
  if (__builtin_mul_overflow(values, size, &size) || size != header.bytes)
    refuse("its shape is not of " + std::to_string(header.bytes) + " bytes");
  if (!can_mean(header.meaning, header.dtype, layout.shape))
    refuse("what its values mean does not fit their type and its shape");
}

}  // namespace

std::size_t front_bytes(std::size_t words, std::size_t blocks) {
  return padded(head_bytes(words) + sizeof(Descriptor) * blocks);
}

std::vector<std::uint64_t> words_behind(const Header& header, std::uint64_t base,
                                        std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> words;
  if (header.difference() != UpdateKind::none) words.push_back(base);
  words.insert(words.end(), shape.begin(), shape.end());
  return words;
}

Binding binding_of(Header header, std::span<const std::uint64_t> words) {
  if (header.version == kNumberedVersion) {
    std::uint64_t number = 0;
    std::memcpy(&number, header.number, sizeof header.number);
    return {number, 0, true};
  }
  header.stored_bytes = 0;
  return {sum_of_head(header, words), 0, is_bound(header)};
}

void put_number(Header& header, std::uint64_t number) {
  std::memcpy(header.number, &number, sizeof header.number);
}

void seal(Header& header, std::span<const std::uint64_t> words,
          std::span<const Descriptor> descriptors) {
  header.checksum = checksum_of_front(header, words, descriptors);
}

std::uint64_t sum_before_descriptors(Header header, std::span<const std::uint64_t> words) {
  const std::size_t head = head_bytes(words.size());
  return sum_of_head(header, words) - checksum_begin(head) +
         checksum_begin(head + sizeof(Descriptor) * header.blocks);
}

std::size_t front_length(std::span<const std::byte> header, std::size_t length) {
  if (length < sizeof(Header))
    refuse("it has " + std::to_string(length) + " bytes, fewer than a header");
  const auto given = read<Header>(header, 0);
  check_numbers(given, length);
  const std::size_t front = front_bytes(given.words(), given.blocks);
  if (front > length) refuse("it ends before its blocks are told");
  return front;
}

Layout layout_of(std::span<const std::byte> stream) {
  return layout_of(stream, stream.size());
}

Layout layout_of(std::span<const std::byte> stream, std::size_t length) {
  const std::size_t front = front_length(stream, length);
  Layout layout;
  layout.header = read<Header>(stream, 0);
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < layout.header.words(); ++i)
    words.push_back(read<std::uint64_t>(stream, sizeof(Header) + 8 * i));
  const bool is_update = layout.header.difference() != UpdateKind::none;
  if (is_update) layout.base = words.front();
  layout.shape.assign(words.begin() + (is_update ? 1 : 0), words.end());
  const std::size_t descriptors = head_bytes(words.size());
  layout.blocks.resize(layout.header.blocks);
  if (!layout.blocks.empty())
    std::memcpy(layout.blocks.data(), stream.data() + descriptors,
                sizeof(Descriptor) * layout.blocks.size());
  if (checksum_of_front(layout.header, words, layout.blocks) != layout.header.checksum)
    refuse(is_bound(layout.header)
               ? "the checksum of its header and its table of blocks does not fit: they were "
                 "changed, or are not of one stream"
               : "the checksum of its header does not fit");
  check_meaning(layout);
  layout.binding = binding_of(layout.header, words);
  layout.offsets.reserve(layout.blocks.size());
  std::size_t offset = front;
  for (std::size_t i = 0; i < layout.blocks.size(); ++i) {
    layout.offsets.push_back(offset);
    offset += padded(layout.blocks[i].payload_bytes());
    if (offset > length) refuse("block " + std::to_string(i) + " does not lie within the stream");
  }
  if (offset != length) refuse("there are bytes behind its last block");
  const std::size_t used = descriptors + sizeof(Descriptor) * layout.blocks.size();
  if (!are_zeros(stream.subspan(used, front - used)))
    refuse("there is something between its parts");
  return layout;
}

}  // namespace lanescope::compress
