#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/blocks.hpp"
#include "compress/lanes.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

// A strip codec codes up to `kStripBytes` of values of one kind, by one warp. It is a class with
//
//   using Word                 unsigned integer of a value's size
//   static constexpr std::uint32_t kRow
//       values that `decode` gives at a time
//   static constexpr std::uint32_t bound(std::uint32_t values)
//       most bytes that a strip has, a multiple of 4
//   static constexpr std::uint32_t least_room(std::uint32_t values)
//       bytes that `encode` needs in any case, up to `bound`
//   template <typename Warp>
//   static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
//                               const Settings& settings, std::uint8_t* out, std::uint32_t room)
//       returns how many bytes the strip has; writes nothing beyond `room`, a multiple of 4 that is
//       `least_room` or more; where the strip has more than that, what was written is of no use
//   template <typename Warp, typename Out>
//   static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
//                      const Settings& settings, Out& out, std::uint32_t values)
//       false where `in` is not what `encode` makes of so many values; reads nothing beyond
//       `bytes`, writes nothing beyond `values`, whatever `in` holds
//
// all of them LANESCOPE_LANES. `in` and `out` may lie in a GPU's shared or global memory; `in` of
// `encode` and `out` of `decode` are aligned to 16 bytes, the coded side to 4, on a GPU `out` of
// `encode` to 16. Every number of values from 1 on is possible, as the last strip of a stream is
// shorter.
//
// A codec that takes little time may let the kernels of updates read values and base but once
// (`OnceShape`). It has
//
//   static constexpr bool kInOrder = true
//       and `encode` takes, in place of `in`, also an object with `const Word* row(first)`: where
//       value `first`, and those behind it in its tile are; of tiles of 2 KiB, each in turn
//   static constexpr std::uint32_t head(std::uint32_t values)
//       bytes of a strip that do not become values in order, but are needed to the last
//
// and a `decode` that takes a `CodedStrip` in place of `in`.
//
// A codec that stores strips in order, and goes on where the room ends, may have, on a GPU,
//
//   static constexpr bool kCodesRest = true
//   template <typename Warp, typename Store>
//   static void encode_rest(Warp warp, const Word* in, std::uint32_t values, std::uint8_t* strip,
//                           std::uint32_t room, std::uint32_t used, Store store)
//       `encode` made `strip` in `room`, and said `used`, which is more; calls `store(begin, end)`
//       for all of the strip in order, of which byte `begin` then lies at `strip`; both are
//       multiples of 4
//
// so that strips for which there was too little room are not coded again.
//
// A codec of which four groups take all registers of an SM to encode has `kManyRegisters`, true:
// they are three where somebody follows (device_progress.cuh).
//
// `Out` takes values in order, a row of `kRow` at a time:
//
//   static constexpr bool kManyRows
//       whether 2 KiB may be put at a time, at a multiple of as many
//   Word* at(std::uint32_t first)
//       where value `first`, a multiple of the row, and those behind it in the row are put
//   template <typename Warp>
//   void done(Warp warp, std::uint32_t end)
//       values before `end` were put; `end` is a multiple of the row, and may lie behind the last

/// A coded strip in two pieces: byte i of its head is `head[i]`, of the others `rest[i]`.
struct CodedStrip {
  const std::uint8_t* head;
  const std::uint8_t* rest;
  bool behind;  ///< Values may be put over what was read of `rest`, though not over what was not.
};

// A codec of the registry has a header, codecs/NAME.hpp, with its strip codecs, one for each kind
// of values, and
//
//   template <>
//   struct CodecOf<Codec::NAME> : StripCodec {
//     template <typename Go>
//     static bool with_strip(Dtype dtype, Go go)
//         calls `go` with an object of the class that codes such values; false where there is none
//   };
//
// which says what differs from `StripCodec`, too.
template <Codec codec>
struct CodecOf;

/// Whether the kernels of updates by a codec read values and base but once.
template <typename Strip>
concept InOrder = Strip::kInOrder;

/// Whether it has `encode_rest`.
template <typename Strip>
concept CodesRest = Strip::kCodesRest;

/// Whether its encoder takes all of the registers that an SM has for four groups, so that there are
/// none for one more warp.
template <typename Strip>
concept ManyRegisters = Strip::kManyRegisters;

struct StripCodec {
  /// Where codecs are tried in turn, those of the lowest rank come first, and of one rank those of
  /// the lowest number; those of rank 0 never.
  static constexpr int kLastRank = 9;

  /// In what order `auto` tries: where all it looks at is constant, the first codec is taken.
  static constexpr int kAutoRank = kLastRank;

  /// In what order the rule tries, for values of a type that the codec takes: the likeliest first.
  static constexpr int rank(Dtype) { return kLastRank; }

  /// Whether the rule tries it only on arrays of which a look at some blocks says that it suits.
  static constexpr bool kNeedsLook = false;

  /// Whether values have one coding only, so that what is decoded is coded so again.
  static constexpr bool kOneCoding = false;
};

/// An `Out` of memory that holds all of the values.
template <typename Word>
struct ValuesOut {
  static constexpr bool kManyRows = false;
  Word* values;
  LANESCOPE_LANES Word* at(std::uint32_t first) const { return values + first; }
  template <typename Warp>
  LANESCOPE_LANES void done(Warp, std::uint32_t) const {}
};

/// What a stream says of its codec.
struct Settings {
  int dimensionality = 1;
  std::uint32_t version = kVersion;
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
