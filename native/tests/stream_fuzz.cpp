// Throws streams whose parts are in other places, twice there, or of other streams, and streams
// that were damaged otherwise, at the host's codecs: each is refused, or means the same values.
// Likewise memory that overlaps, and updates with their base or another one, also in place, where a
// damaged stream leaves the base as it was. It is built with the sanitizers of addresses and of
// undefined behaviour, and all buffers are as long as what they hold. `make fuzz` runs it. Cases
// have the seeds --seed, --seed + 1 and so on, so runs that shall differ need seeds far apart.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compress/checksum.hpp"
#include "compress/device_update.hpp"
#include "compress/host_codec.hpp"
#include "error.hpp"
#include "fuzzing.hpp"

extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace lanescope::compress {
namespace {

using Bytes = std::vector<std::byte>;

/// What is being done, told when it goes wrong.
struct Now {
  std::uint64_t seed = 0;
  const char* doing = "";
};
Now now;

void tell_now() {
  std::fprintf(stderr, "%s; again: stream_fuzz --inputs 1 --seed %llu\n", now.doing,
               static_cast<unsigned long long>(now.seed));
}

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  tell_now();
  std::exit(1);
}

struct Case {
  Choice choice;
  std::vector<std::uint64_t> shape;
  Bytes values;
  std::optional<Bytes> base;  // of an update
  Bytes stream;
};

Base base_in(const std::optional<Bytes>& base) {
  return base ? Base(std::span<const std::byte>(*base)) : Base();
}

Bytes compressed(const Choice& choice, const Bytes& values, const std::vector<std::uint64_t>& shape,
                 const std::optional<Bytes>& base) {
  Bytes room(most_stream_bytes(values.size(), shape.size() + (base ? 1 : 0)));
  room.resize(compress_on_host(choice, values, shape, room, 1, base_in(base)));
  return room;
}

/// A stream in its parts.
struct Parts {
  Header header;
  std::vector<std::uint64_t> words;  // of an update the sum of the base, and the shape
  std::vector<Descriptor> table;
  std::vector<Bytes> payloads;

  static Parts of(const Bytes& stream) {
    const Layout layout = layout_of(stream);
    Parts parts{
        layout.header, words_behind(layout.header, layout.base, layout.shape), layout.blocks, {}};
    for (std::size_t i = 0; i < layout.blocks.size(); ++i) {
      const auto* from = stream.data() + layout.offsets[i];
      parts.payloads.emplace_back(from, from + padded(layout.blocks[i].payload_bytes()));
    }
    return parts;
  }

  /// With a length that fits, unless the header is as it is because it is another one's.
  Bytes stream(bool whole) const {
    const std::size_t front = front_bytes(words.size(), table.size());
    Bytes all(front);
    for (const Bytes& one : payloads) all.insert(all.end(), one.begin(), one.end());
    Header told = header;
    if (whole) told.stored_bytes = all.size();
    std::memcpy(all.data(), &told, sizeof told);
    if (!words.empty()) std::memcpy(all.data() + sizeof told, words.data(), 8 * words.size());
    if (!table.empty())
      std::memcpy(all.data() + head_bytes(words.size()), table.data(), 8 * table.size());
    return all;
  }

  Bytes sealed() const {
    Parts fits = *this;
    fits.header.stored_bytes = stream(true).size();
    seal(fits.header, words, table);
    return fits.stream(true);
  }
};

/// What a stream means, with a base where there is one; false where it is refused.
bool read(const Bytes& stream, std::size_t most, const std::optional<Bytes>& base, Bytes& values) {
  const Exact<std::byte> exact(stream.data(), stream.size());
  const std::span<const std::byte> in(exact.data.get(), exact.size);
  try {
    const Layout layout = layout_of(in);
    if (layout.header.bytes > most) return false;
    Exact<std::byte> out(layout.header.bytes);
    decompress_on_host(layout, in, {out.begin(), out.size}, 1, base_in(base));
    values.assign(out.begin(), out.end());
    return true;
  } catch (const Error& error) {
    require(
        error.name() == "bad stream" || error.name() == "bad block" || error.name() == "bad base",
        std::string("refused with ") + error.what());
    return false;
  }
}

/// Blocks of several kinds, some of them the same.
void fill_blocks(Random& random, Bytes& values, std::size_t each) {
  for (std::size_t begin = 0; begin < values.size(); begin += kBlockBytes) {
    const std::size_t size = std::min(kBlockBytes, values.size() - begin);
    std::byte* block = values.data() + begin;
    const std::uint32_t kind = random.below(6);
    const std::uint64_t seed = random.bits();
    if (kind == 0 && begin > 0) {
      std::memcpy(block,
                  values.data() +
                      random.below(static_cast<std::uint32_t>(begin)) / kBlockBytes * kBlockBytes,
                  size);
      continue;
    }
    Random mine(kind == 1 ? 1 : seed);
    std::uint64_t value = mine.bits();
    for (std::size_t i = 0; i < size; i += each) {
      if (kind >= 4) value = mine.once_in(kind == 4 ? 8 : 1) ? mine.bits() : 0;
      if (kind == 3) value += mine.below(5);
      std::memcpy(block + i, &value, std::min(each, size - i));
    }
  }
}

/// The base of values, of which it has most but for a few.
Bytes base_for(Random& random, const Bytes& values) {
  Bytes base = values;
  for (std::uint32_t changes = random.below(100); changes > 0 && !base.empty(); --changes)
    base[random.below(static_cast<std::uint32_t>(base.size()))] =
        static_cast<std::byte>(random.bits());
  return base;
}

/// What values of a type can mean.
Meaning meaning_for(Random& random, Dtype dtype) {
  const bool has_parts = dtype == Dtype::float32 || dtype == Dtype::float64;
  if ((!has_parts && dtype != Dtype::bytes) || random.once_in(3)) return Meaning::plain;
  if (has_parts) return Meaning::complex;
  Meaning meaning = Meaning::complex;
  while (meaning == Meaning::complex)
    meaning = static_cast<Meaning>(random.below(static_cast<std::uint32_t>(std::size(kMeanings))));
  return meaning;
}

Case draw(Random& random, const Case* like) {
  constexpr auto kCodecs = static_cast<std::uint32_t>(std::size(compression::kCodecs));
  Case one;
  if (like != nullptr) {
    one = *like;
  } else {
    for (bool possible = false; !possible;) {
      one.choice = {static_cast<Codec>(random.below(kCodecs)), static_cast<Dtype>(random.below(12)),
                    1 + static_cast<int>(random.below(32))};
      possible = takes(one.choice.codec, one.choice.dtype);
    }
    one.choice.meaning = meaning_for(random, one.choice.dtype);
    const std::size_t sides = one.choice.meaning == Meaning::complex ? 2 : 1;
    const std::size_t count = random.below(4) * kBlockBytes / bytes_of(one.choice.dtype) +
                              random.below(random.once_in(3) ? 1 : 500);
    one.values.resize(count * sides * bytes_of(one.choice.dtype));
    one.shape = {count};
    if (random.once_in(3)) one.shape.push_back(1);
    if (sides == 2) one.shape.push_back(2);
  }
  fill_blocks(random, one.values, bytes_of(one.choice.dtype));
  if (like == nullptr) one.choice.difference = static_cast<UpdateKind>(random.below(3));
  if (one.choice.difference != UpdateKind::none && (like == nullptr || random.once_in(2)))
    one.base = base_for(random, one.values);
  one.stream = compressed(one.choice, one.values, one.shape, one.base);
  return one;
}

std::size_t some(Random& random, std::size_t count) {
  return random.below(static_cast<std::uint32_t>(count));
}

/// Parts in other places, or of another stream of the same shape. Returns nothing where nothing
/// changed.
Bytes rearranged(Random& random, const Case& one, const Case& other) {
  Parts parts = Parts::of(one.stream);
  const Parts others = Parts::of(other.stream);
  const std::size_t blocks = parts.table.size();
  const std::size_t i = some(random, blocks), k = some(random, blocks);
  bool whole = true, fits_by_number = i != k;
  switch (random.below(8)) {
    case 0:
      now.doing = "two blocks changed places";
      std::swap(parts.table[i], parts.table[k]);
      std::swap(parts.payloads[i], parts.payloads[k]);
      break;
    case 1:
      now.doing = "a block twice";
      parts.table[i] = parts.table[k];
      parts.payloads[i] = parts.payloads[k];
      break;
    case 2:
      now.doing = "two entries of the table changed places";
      std::swap(parts.table[i], parts.table[k]);
      break;
    case 3:
      now.doing = "two payloads changed places";
      std::swap(parts.payloads[i], parts.payloads[k]);
      break;
    case 4:
      now.doing = "a block of another stream";
      parts.table[i] = others.table[k];
      parts.payloads[i] = others.payloads[k];
      break;
    case 5:
      now.doing = "the header of another stream";
      parts.header = others.header;
      whole = random.once_in(2);
      fits_by_number = false;
      break;
    case 6:
      now.doing = "the table of another stream";
      parts.table = others.table;
      fits_by_number = false;
      break;
    default:
      now.doing = "the payloads of another stream";
      parts.payloads = others.payloads;
      fits_by_number = false;
  }
  // A header that was made to fit hides nothing from the checksums of blocks in other places.
  if (fits_by_number && random.once_in(3)) return parts.sealed();
  return parts.stream(whole);
}

/// The header of a stream of other types, shape or settings, made to fit: blocks are not its own.
Bytes with_another_meaning(Random& random, const Case& one) {
  Parts parts = Parts::of(one.stream);
  now.doing = "a header that says otherwise what the array is, and fits";
  switch (random.below(7)) {
    case 5:
      parts.header.number[0] = static_cast<std::uint8_t>(random.below(4));
      break;
    case 6:
      parts.words[0] ^= std::uint64_t{1} << random.below(64);
      break;
    case 0:
      parts.header.dtype = static_cast<Dtype>(random.below(12));
      break;
    case 1:
      parts.header.dimensionality = static_cast<std::uint8_t>(1 + random.below(32));
      break;
    case 2:
      parts.header.codec = static_cast<Codec>(random.below(7));
      break;
    case 3:
      parts.header.version = static_cast<std::uint8_t>(random.below(6));
      parts.header.meaning =
          static_cast<Meaning>(random.below(1 + static_cast<std::uint32_t>(std::size(kMeanings))));
      break;
    default:
      std::reverse(parts.words.begin(), parts.words.end());
  }
  return parts.sealed();
}

Bytes damaged(Random& random, const Case& one) {
  Bytes changed = one.stream;
  const auto size = static_cast<std::uint32_t>(changed.size());
  switch (random.below(4)) {
    case 0:
      now.doing = "cut off";
      changed.resize(random.below(size));
      break;
    case 1:
      now.doing = "with more behind it";
      changed.resize(size + 1 + random.below(64));
      break;
    case 2:
      now.doing = "with bytes of its front changed";
      changed[random.below(std::min(size, 120U))] ^= static_cast<std::byte>(1 + random.below(255));
      break;
    default:
      now.doing = "with bits flipped";
      for (std::uint32_t flips = 1 + random.below(4); flips > 0; --flips)
        changed[random.below(size)] ^= static_cast<std::byte>(1U << random.below(8));
  }
  return changed;
}

/// As lanescope made it before blocks were bound to their places.
Bytes of_version_2(const Case& one) {
  Parts parts = Parts::of(one.stream);
  parts.header.version = 2;
  for (std::size_t i = 0; i < parts.table.size(); ++i)
    parts.table[i].checksum =
        checksum_of(one.values.data() + i * kBlockBytes, bytes_of_block(one.values.size(), i));
  return parts.sealed();
}

/// As parcels are saved: blocks are bound to a number that the header has.
Bytes of_version_5(const Case& one, std::uint64_t number) {
  Parts parts = Parts::of(one.stream);
  parts.header.version = kNumberedVersion;
  put_number(parts.header, number);
  const Binding binding = binding_of(parts.header, parts.words);
  for (std::size_t i = 0; i < parts.table.size(); ++i)
    parts.table[i].checksum =
        checksum_of(one.values.data() + i * kBlockBytes, bytes_of_block(one.values.size(), i),
                    checksum_place(binding, i));
  return parts.sealed();
}

void require_numbers_count(Random& random, const Case& one) {
  if (one.base) return;  // what is numbered is none
  now.doing = "a stream of version 5";
  const std::uint64_t number = random.bits() >> (64 - kNumberBits);
  Case numbered = one;
  numbered.stream = of_version_5(one, number);
  Bytes back;
  require(read(numbered.stream, one.values.size(), {}, back) && back == one.values, "it is read");
  for (int i = 0; i < 8; ++i) {
    const Bytes changed = damaged(random, numbered);
    if (changed != numbered.stream && read(changed, one.values.size(), {}, back))
      require(back == one.values, "what was damaged means something else");
  }
  if (one.values.empty()) return;
  Parts parts = Parts::of(numbered.stream);
  put_number(parts.header, number ^ 1);
  now.doing = "a stream of version 5 with another number";
  require(!read(parts.sealed(), one.values.size(), {}, back), "it is read");
}

void require_round_trip(const Case& one) {
  now.doing = "a round trip";
  Bytes back;
  require(read(one.stream, one.values.size(), one.base, back) && back == one.values,
          "values come back");
  require(compressed(one.choice, one.values, one.shape, one.base) == one.stream,
          "streams are the same");
  const Layout layout = layout_of(one.stream);
  require(layout.shape == one.shape && layout.header.meaning == one.choice.meaning,
          "what the values are comes back");
  if (one.choice.meaning != Meaning::plain || one.base) return;
  require(read(of_version_2(one), one.values.size(), {}, back) && back == one.values,
          "a stream of version 2 is read");
}

/// With the base as the memory for the values: they come out, or it stays as it was.
void require_in_place(const Bytes& stream, const Case& one, bool whole) {
  Bytes memory = *one.base;
  const Exact<std::byte> exact(stream.data(), stream.size());
  const std::span<const std::byte> in(exact.data.get(), exact.size);
  try {
    decompress_on_host(layout_of(in), in, memory, 1, std::span<const std::byte>(memory));
    require(memory == one.values, "values came out otherwise in place");
  } catch (const Error& error) {
    require(!whole && memory == *one.base, std::string("a base was changed: ") + error.what());
  }
}

void refuse_base(const Case& one, const std::optional<Bytes>& base, const char* what) {
  now.doing = what;
  Bytes back;
  require(!read(one.stream, one.values.size(), base, back), "a base was taken for another one");
}

/// Updates in place, without a base, and with others.
void require_base_matters(Random& random, const Case& one) {
  if (!one.base) return refuse_base(one, one.values, "a base that nobody needs");
  refuse_base(one, std::nullopt, "no base");
  now.doing = "in place";
  require_in_place(one.stream, one, true);
  Bytes other = *one.base;
  other.push_back(std::byte{0});
  refuse_base(one, other, "a base of another size");
  other.pop_back();
  if (other.empty()) return;
  const std::size_t at = random.below(static_cast<std::uint32_t>(other.size()));
  other[at] ^= static_cast<std::byte>(1U << random.below(8));
  refuse_base(one, other, "another base");
  if (other.size() < 2) return;
  now.doing = "a part of the base";
  const Bytes before = *one.base;
  Bytes memory(before);
  memory.resize(before.size() + 1);
  const std::span<std::byte> room(memory);
  try {
    decompress_on_host(layout_of(one.stream), one.stream, room.subspan(1), 1,
                       std::span<const std::byte>(room.first(before.size())));
    require(false, "values were put onto a part of their base");
  } catch (const Error& error) {
    require(error.name() == "bad base", error.what());
  }
}

/// What the threads of a GPU's kernels do to arrays is what the host does.
void require_kernels_agree(Random& random, const Case& one) {
  if (!one.base) return;
  now.doing = "what threads of a GPU do";
  const std::size_t size = one.values.size(), threads = 1 + random.below(70);
  const auto aligned = [&](const Bytes& bytes) {
    auto room = std::vector<Unit>(size / sizeof(Unit) + 1);
    if (size > 0) std::memcpy(room.data(), bytes.data(), size);
    return room;
  };
  const auto values = aligned(one.values);
  auto base = aligned(*one.base), out = base;
  const auto at = [](auto& room) { return reinterpret_cast<std::byte*>(room.data()); };
  const auto* in = reinterpret_cast<const std::byte*>(values.data());
  const Differing differing = Differing::of(one.choice.difference, bytes_of(one.choice.dtype));
  Bytes expected(size);
  take_differences(differing, one.values, one.base->data(), expected.data());
  std::uint64_t sum = 0;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    take_share({thread, threads}, differing, in, at(base), at(out), size);
    sum += sum_share({thread, threads}, at(base), size);
  }
  require(size == 0 || std::memcmp(out.data(), expected.data(), size) == 0, "differences");
  require(sum == sum_on_host(*one.base, 1) && sum == layout_of(one.stream).base, "sums");
  for (std::size_t thread = 0; thread < threads; ++thread)
    put_share({thread, threads}, differing, at(out), at(base), at(base), size);
  require(size == 0 || std::memcmp(base.data(), in, size) == 0, "values");
}

/// An array and its stream somewhere in the same memory.
void require_apart(Random& random, const Case& one) {
  now.doing = "memory that overlaps";
  const std::size_t sides = one.shape.size() + (one.base ? 1 : 0);
  const std::size_t most = most_stream_bytes(one.values.size(), sides);
  const std::size_t all = most + 2 * one.values.size();
  Bytes memory(all);
  const std::size_t lies = some(random, all - one.values.size() + 1);
  const std::size_t goes = some(random, all - most + 1);
  if (!one.values.empty()) std::memcpy(memory.data() + lies, one.values.data(), one.values.size());
  const Bytes before = memory;
  const std::span room(memory);
  const bool apart = one.values.empty() || lies >= goes + most || goes >= lies + one.values.size();
  try {
    compress_on_host(one.choice, room.subspan(lies, one.values.size()), one.shape,
                     room.subspan(goes, most), 1, base_in(one.base));
    require(apart, "an array was compressed onto itself");
  } catch (const Error& error) {
    require(!apart && memory == before, error.what());
  }
}

std::uint64_t fuzz(std::uint64_t seed, std::uint64_t most) {
  constexpr std::uint64_t kDamaged = 64;
  now.seed = seed;
  Random random(seed);
  const Case one = draw(random, nullptr), other = draw(random, &one);
  require_round_trip(one);
  require_apart(random, one);
  require_numbers_count(random, one);
  require_base_matters(random, one);
  require_kernels_agree(random, one);
  std::uint64_t inputs = 0;
  for (; inputs < kDamaged && inputs < most; ++inputs) {
    const std::uint32_t kind = one.values.empty() ? 9 : random.below(10);
    const Bytes changed = kind < 6   ? rearranged(random, one, other)
                          : kind < 8 ? with_another_meaning(random, one)
                                     : damaged(random, one);
    if (changed == one.stream || changed == other.stream) continue;
    if (one.base && inputs % 4 == 0) require_in_place(changed, one, false);
    Bytes back;
    if (!read(changed, 2 * one.values.size(), one.base, back)) continue;
    // Bits that fill up a strip mean nothing.
    require(kind >= 8 && back == one.values, "what was changed was taken for a stream");
  }
  return inputs;
}

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "%s; use: stream_fuzz [--inputs N] [--seed S]\n", what);
  std::exit(2);
}

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != 0) refuse("not a number");
  return value;
}

}  // namespace
}  // namespace lanescope::compress

int main(int count, char** arguments) {
  using namespace lanescope::compress;
  std::uint64_t inputs = 10000, seed = 1;
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (i + 1 == count) refuse("an option lacks its value");
    if (name != "--inputs" && name != "--seed") refuse("no such option");
    (name == "--inputs" ? inputs : seed) = number(arguments[i + 1]);
  }
  if (inputs == 0) refuse("no input");
  __sanitizer_set_death_callback(tell_now);
  std::uint64_t done = 0;
  for (; done < inputs; ++seed) done += fuzz(seed, inputs == 1 ? ~std::uint64_t{0} : inputs - done);
  std::printf("streams    %llu inputs, nothing wrong\n", static_cast<unsigned long long>(done));
}
