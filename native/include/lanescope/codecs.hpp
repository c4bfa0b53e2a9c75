#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace lanescope::compression {

/// Who codes the blocks of a stream: nobody, functions of lanescope's own by strips of 16 KiB, on
/// the host and on GPUs, or NVIDIA's nvCOMP 6 on a GPU, which the loader has to find:
/// `libnvcomp.so.6`. nvCOMP's codecs are for streams, and not for channels.
enum class Coder : std::uint8_t { none, strips, nvcomp };

// The registry of codecs: name, number in streams, coder, what it does. Each has one line, in the
// order of the numbers, which follow each other. One that codes by strips has a header,
// native/src/compress/codecs/NAME.hpp, besides. All else follows from both: the streams that are
// read, kernels, `auto`, the rule, what Python and the command line know.
// clang-format off
#define LANESCOPE_CODECS(CODEC)                                                                    \
  CODEC(raw, 0, none, "As they are.")                                                              \
  CODEC(gfc, 1, strips, "Differences to values shortly before, without leading zero bytes.")       \
  CODEC(exponent, 2, strips, "Exponents of floating-point values in 2 to 4 bits.")                 \
  CODEC(delta, 3, strips, "Differences to the value before, in as few bits as 32 of them need.")   \
  CODEC(ans, 4, nvcomp, "NVIDIA's nvCOMP, by how often bytes appear.")                            \
  CODEC(bitcomp, 5, nvcomp, "NVIDIA's nvCOMP, for numbers.")                                       \
  CODEC(zvc, 6, strips, "Zero-value compression: a bit for each value, and those that are not 0.") \
  CODEC(alp, 7, strips, "Values that were decimals as integers, in few bits.")                     \

// The types of values: name, number in streams, bytes of one value.
#define LANESCOPE_DTYPES(DTYPE) \
  DTYPE(bytes, 0, 1)            \
  DTYPE(float16, 1, 2)          \
  DTYPE(bfloat16, 2, 2)         \
  DTYPE(float32, 3, 4)          \
  DTYPE(float64, 4, 8)          \
  DTYPE(int8, 5, 1)             \
  DTYPE(int16, 6, 2)            \
  DTYPE(int32, 7, 4)            \
  DTYPE(int64, 8, 8)            \
  DTYPE(uint16, 9, 2)           \
  DTYPE(uint32, 10, 4)          \
  DTYPE(uint64, 11, 8)
// clang-format on

/// How values are coded; docs/compression.md tells each. The numbers are those in streams.
enum class Codec : std::uint8_t {
#define LANESCOPE_ENUMERATOR(name, number, ...) name = number,
  LANESCOPE_CODECS(LANESCOPE_ENUMERATOR)
};

/// What the values are. The numbers are those in streams.
enum class Dtype : std::uint8_t { LANESCOPE_DTYPES(LANESCOPE_ENUMERATOR) };
#undef LANESCOPE_ENUMERATOR

struct CodecEntry {
  const char* name;
  Codec codec;
  Coder coder;
  const char* description;
};

struct DtypeEntry {
  const char* name;
  Dtype dtype;
  std::size_t value_bytes;
};

/// Of all codecs and types, each at the place of its number.
inline constexpr CodecEntry kCodecs[] = {
#define LANESCOPE_ENTRY(name, number, coder, description) \
  {#name, Codec::name, Coder::coder, description},
    LANESCOPE_CODECS(LANESCOPE_ENTRY)
#undef LANESCOPE_ENTRY
};
inline constexpr DtypeEntry kDtypes[] = {
#define LANESCOPE_ENTRY(name, number, bytes) {#name, Dtype::name, bytes},
    LANESCOPE_DTYPES(LANESCOPE_ENTRY)
#undef LANESCOPE_ENTRY
};

/// Whether a number in a stream is one of the registry.
constexpr bool is_known(Codec codec) {
  return static_cast<std::size_t>(codec) < std::size(kCodecs);
}
constexpr bool is_known(Dtype dtype) {
  return static_cast<std::size_t>(dtype) < std::size(kDtypes);
}

/// Of a codec or type that is known.
inline const CodecEntry& entry_of(Codec codec) {
  return kCodecs[static_cast<std::size_t>(codec)];
}
inline const DtypeEntry& entry_of(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

/// What an update holds in place of values: their difference to those of a base, bit by bit as
/// unsigned integers.
enum class UpdateKind : std::uint8_t {
  none = 0,          ///< The values themselves: no update.
  exclusive_or = 1,  ///< Which bits differ.
  subtraction = 2,   ///< The value less that of the base, modulo 2 to the number of its bits.
};

}  // namespace lanescope::compression
