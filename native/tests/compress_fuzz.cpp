// Throws data of many kinds, and coded strips that were damaged in many ways, at the strip codecs.
// It is built with the sanitizers of addresses and of undefined behaviour, and all buffers are as
// long as what they hold, so that every access out of bounds ends it. `make fuzz` runs it.
// Cases have the seeds --seed, --seed + 1 and so on, so runs that shall differ need seeds far
// apart.

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "compress/format.hpp"
#include "compress/strips.hpp"
#include "compress/warp.hpp"
#include "fuzzing.hpp"

extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace lanescope::compress {
namespace {

/// What is being done, told when it goes wrong. A case is found again by its seed alone.
struct Now {
  const char* codec = "";
  std::uint64_t seed = 0;
  const char* doing = "";
};
Now now;

void tell_now() {
  std::fprintf(stderr, "%s: %s; again: compress_fuzz --codec %s --inputs 1 --seed %llu\n",
               now.codec, now.doing, now.codec, static_cast<unsigned long long>(now.seed));
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  tell_now();
  std::exit(1);
}

/// How a word holds a floating-point number; words of 16 bits are bfloat16 or float16, by chance.
template <typename Word>
struct Floats {
  static constexpr int kBits = 8 * sizeof(Word);
  Word sign, exponent, mantissa;

  explicit Floats(Random& random) {
    const int widths[] = {kBits == 64 ? 11 : kBits == 8 ? 4 : 8, kBits == 16 ? 5 : 0};
    const int width = widths[1] != 0 && random.once_in(2) ? widths[1] : widths[0];
    sign = static_cast<Word>(Word{1} << (kBits - 1));
    mantissa = static_cast<Word>((Word{1} << (kBits - 1 - width)) - 1);
    exponent = static_cast<Word>(~(sign | mantissa));
  }

  static Word of(double value) {
    if constexpr (kBits == 64) return std::bit_cast<Word>(value);
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return static_cast<Word>(kBits == 8 ? bits >> 23 : bits >> (kBits == 16 ? 16 : 0));
  }
};

template <typename Word>
void fill_smooth(Random& random, Word* out, std::uint32_t count) {
  const double scale = std::exp2(static_cast<int>(random.below(60)) - 30);
  const double noise = random.once_in(2) ? 0 : std::exp2(-1.0 - random.below(50));
  const double turn = random.unit() * 0.2, cosine = std::cos(turn), sine = std::sin(turn);
  double x = 1, y = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const double next = x * cosine - y * sine;
    y = x * sine + y * cosine;
    x = next;
    out[i] = Floats<Word>::of(scale * (x + noise * random.unit()));
  }
}

/// Values beside 0, the largest, and half of it, so that differences wrap around.
template <typename Word>
void fill_wrapping(Random& random, Word* out, std::uint32_t count) {
  const Word half = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  const Word bases[] = {0, static_cast<Word>(~Word{0}), half, static_cast<Word>(half - 1)};
  const std::uint32_t apart = 1 + random.below(4);
  for (std::uint32_t i = 0; i < count; ++i)
    out[i] = static_cast<Word>(bases[random.below(4)] + random.below(apart) - apart / 2);
}

/// Steps of any size from a value some places back.
template <typename Word>
void fill_walk(Random& random, Word* out, std::uint32_t count) {
  const std::uint32_t back = 1 + random.below(40), narrow = random.below(64);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Word before = i < back ? 0 : out[i - back];
    const Word step = static_cast<Word>(random.of_any_size() >> narrow);
    out[i] = static_cast<Word>(random.once_in(2) ? before + step : before - step);
  }
}

/// Sums of sums of steps at a lag, with other steps in every second 16 values: differences of
/// higher order are small, and halves of rows have different widths.
template <typename Word>
void fill_bends(Random& random, Word* out, std::uint32_t count) {
  const std::uint32_t back = 1 + random.below(16), narrow = random.below(64);
  const std::uint32_t other = random.below(64 - narrow);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t step = random.bits() >> narrow >> (i / 16 % 2 == 0 ? 0 : other);
    out[i] = static_cast<Word>(random.once_in(2) ? step : 0 - step);
  }
  for (std::uint32_t times = random.below(4); times > 0; --times)
    for (std::uint32_t i = back; i < count; ++i) out[i] = static_cast<Word>(out[i] + out[i - back]);
}

/// Integers of any span over a power of ten, with signed zeros, any words and one that many values
/// are among them, or not.
template <typename Word>
void fill_decimals(Random& random, Word* out, std::uint32_t count) {
  const double scale = std::pow(10.0, static_cast<int>(random.below(27)) - 7);
  const std::uint64_t span = random.of_any_size() >> (random.once_in(8) ? 0 : 11);
  const double offset = static_cast<double>(random.of_any_size() >> 12);
  const double first = random.once_in(2) ? -static_cast<double>(span / 2) : offset;
  const std::uint32_t rare = random.once_in(2) ? ~0U : 2 + random.below(200);
  const std::uint32_t missing = random.once_in(2) ? ~0U : 1 + random.below(30);
  const Word filler = static_cast<Word>(random.once_in(2) ? ~Word{0} : random.bits());
  for (std::uint32_t i = 0; i < count; ++i) {
    const double integer = first + static_cast<double>(random.bits() % (span + (span + 1 != 0)));
    out[i] = Floats<Word>::of(random.once_in(rare) && random.once_in(2) ? -0.0 : integer / scale);
    if (random.once_in(rare)) out[i] = static_cast<Word>(random.bits());
    if (random.once_in(missing)) out[i] = filler;
  }
}

template <typename Word>
void fill(Random& random, Word* out, std::uint32_t count) {
  const Floats<Word> floats(random);
  const auto word = [&] { return static_cast<Word>(random.bits()); };
  const auto each = [&](auto make) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<Word>(make());
  };
  const Word constant = word();
  const std::uint32_t rare = 2 + random.below(60);
  switch (random.below(14)) {
    case 0:
      return each(word);
    case 1:
      return fill_smooth(random, out, count);
    case 2:
      return each([&] { return constant; });
    case 3:
      return each([&] { return word() | floats.exponent; });  // NaN, any payload
    case 4:
      return each(
          [&] { return (word() & floats.sign) | (random.of_any_size() & floats.mantissa); });
    case 5:
      return each([&] { return (word() & floats.sign) | floats.exponent; });
    case 6:
      return each([&] { return word() & floats.sign; });
    case 7:
      return each([&] { return random.once_in(rare) ? word() : Word{0}; });
    case 8:
      return fill_wrapping(random, out, count);
    case 9:
    case 10:
      return fill_bends(random, out, count);
    case 11:
    case 12:
      return fill_decimals(random, out, count);
    default:
      return fill_walk(random, out, count);
  }
}

/// Values of one kind, or parts of several, 1 to as many as a strip has. Short strips are coded
/// faster, and have the same ends; so they are more frequent.
template <typename Word>
Exact<Word> values_of(Random& random) {
  constexpr std::uint32_t kMost = kStripBytes / sizeof(Word);
  const std::uint32_t kind = random.below(16);
  const std::uint32_t count = kind == 0   ? kMost
                              : kind == 1 ? 1 + random.below(kMost)
                                          : 1 + random.below(1U << (1 + random.below(9)));
  Exact<Word> values(std::min(count, kMost));
  const auto size = static_cast<std::uint32_t>(values.size);
  std::uint32_t begin = 0;
  while (begin < size) {
    const std::uint32_t part = random.once_in(2) ? size - begin : 1 + random.below(size - begin);
    fill(random, values.begin() + begin, part);
    begin += part;
  }
  return values;
}

using Coded = std::vector<std::uint8_t>;

/// Damages a coded strip; `other` is some other one.
const char* damage(Random& random, Coded& coded, const Coded& other) {
  const auto size = static_cast<std::uint32_t>(coded.size());
  const auto place = [&] { return random.below(static_cast<std::uint32_t>(coded.size())); };
  switch (random.below(8)) {
    case 0:
      for (std::uint32_t flips = 1 + random.below(4); flips > 0; --flips)
        coded[place()] ^= static_cast<std::uint8_t>(1U << random.below(8));
      return "decoding with bits flipped";
    case 1:
      coded.resize(random.once_in(2) ? random.below(size) : random.below(size) / 4 * 4);
      return "decoding what was truncated";
    case 2:
      for (std::uint32_t more = random.once_in(8) ? 1 + random.below(64) : 4; more > 0; --more)
        coded.push_back(static_cast<std::uint8_t>(random.once_in(2) ? 0 : random.bits()));
      return "decoding what was extended";
    case 3: {
      coded.resize(random.below(size) / 4 * 4);
      const std::uint32_t from = random.below(static_cast<std::uint32_t>(other.size())) / 4 * 4;
      coded.insert(coded.end(), other.begin() + from, other.end());
      return "decoding what was spliced";
    }
    case 4:
      for (std::uint32_t at = place(), end = at + 1 + random.below(16); at < end && at < size; ++at)
        coded[at] = static_cast<std::uint8_t>(random.bits());
      return "decoding with bytes replaced";
    case 5: {
      const std::uint32_t at = place(), from = place();
      const std::uint32_t count = std::min(1 + random.below(64), size - std::max(at, from));
      std::memmove(coded.data() + at, coded.data() + from, count);
      return "decoding with bytes moved";
    }
    case 6:
      coded[random.below(std::min(size, 32U))] = static_cast<std::uint8_t>(random.bits());
      return "decoding with its begin changed";
    default:
      coded.resize(random.once_in(4) ? random.below(2 * size) : size);
      for (auto& byte : coded) byte = static_cast<std::uint8_t>(random.bits());
      return "decoding random bytes";
  }
}

/// Whether there is only one way to code values, so that all that is decoded is coded so again.
enum class Codings { one, several };

template <typename Strip, Codings codings>
class Fuzz {
  using Word = typename Strip::Word;

 public:
  explicit Fuzz(const char* name) : name_(name) {}

  /// Round trips once, and decodes some damaged strips, `most` inputs at most; returns how many.
  std::uint64_t operator()(std::uint64_t seed, std::uint64_t most) {
    constexpr std::uint64_t kDamaged = 6;
    now = {name_, seed, "a round trip"};
    Random random(seed);
    const Coded other = round_trip(random);
    const Coded coded = round_trip(random);
    std::uint64_t inputs = 2;
    for (; inputs < std::max<std::uint64_t>(most, 3) && inputs < 2 + kDamaged; ++inputs)
      decode_damaged(random, coded, other);
    return inputs;
  }

 private:
  Coded encode(const Exact<Word>& values, const Settings& settings, std::uint8_t junk) {
    const auto count = static_cast<std::uint32_t>(values.size);
    const std::uint32_t bound = Strip::bound(count);
    require(bound % 4 == 0, "bound is a multiple of 4");
    Exact<std::uint8_t> out(bound);
    std::memset(out.begin(), junk, bound);
    const std::uint32_t used =
        Strip::encode(HostWarp{}, values.data.get(), count, settings, out.begin(), bound);
    require(used <= bound, "no more bytes than bound");
    if (junk != 0) encode_into_less(values, settings, out, used);
    return Coded(out.begin(), out.begin() + (used + 3) / 4 * 4);
  }

  /// Where there is room for no more than has to be, or some of the rest, what fits is the same.
  void encode_into_less(const Exact<Word>& values, const Settings& settings,
                        const Exact<std::uint8_t>& wanted, std::uint32_t bytes) {
    const auto count = static_cast<std::uint32_t>(values.size);
    const std::uint32_t least = Strip::least_room(count), bound = Strip::bound(count);
    const std::uint32_t room = (least + (bound - least) / (1 + bytes % 5) + 3) / 4 * 4;
    Exact<std::uint8_t> out(room);
    std::memset(out.begin(), 0xFF, room);
    const std::uint32_t used =
        Strip::encode(HostWarp{}, values.data.get(), count, settings, out.begin(), room);
    require(used == bytes, "less room changes the size");
    require(used > room || std::memcmp(out.begin(), wanted.data.get(), used) == 0,
            "less room changes what fits");
  }

  bool decode(const Coded& coded, const Settings& settings, Exact<Word>& values) {
    const Exact<std::uint8_t> in(coded.data(), coded.size());
    ValuesOut<Word> out{values.begin()};
    return Strip::decode(HostWarp{}, in.data.get(), static_cast<std::uint32_t>(in.size), settings,
                         out, static_cast<std::uint32_t>(values.size));
  }

  Coded round_trip(Random& random) {
    settings_.dimensionality = 1 + static_cast<int>(random.below(kLanes));
    const Exact<Word> values = values_of<Word>(random);
    count_ = static_cast<std::uint32_t>(values.size);
    Coded coded = encode(values, settings_, 0);
    if (random.once_in(4))
      require(coded == encode(values, settings_, 0xFF), "coded bytes do not come from `out`");
    Exact<Word> back(values.size);
    require(decode(coded, settings_, back), "what was encoded is decoded");
    require(std::memcmp(back.begin(), values.data.get(), values.size * sizeof(Word)) == 0,
            "decoded values are those that were encoded");
    return coded;
  }

  void decode_damaged(Random& random, const Coded& coded, const Coded& other) {
    Coded damaged = coded;
    Settings settings = settings_;
    std::uint32_t count = count_;
    now.doing = "decoding for other values or settings";
    if (random.once_in(8)) {
      constexpr int kSettings[] = {0, -1, -2147483647 - 1, 33, 2147483647, 1, 32};
      settings.dimensionality = kSettings[random.below(7)];
      settings.version = random.below(4);
    } else if (random.once_in(8)) {
      count = 1 + random.below(kStripBytes / sizeof(Word));
    } else {
      now.doing = damage(random, damaged, other);
    }
    Exact<Word> values(count);
    std::memset(values.begin(), 0xA5, count * sizeof(Word));
    if (decode(damaged, settings, values) && codings == Codings::one)
      require(encode(values, settings, 0) == damaged, "what is decoded is coded so again");
  }

  const char* name_;
  Settings settings_;
  std::uint32_t count_ = 0;
};

struct Options {
  std::uint64_t inputs = 100000;
  std::uint64_t seed = 1;
  std::string codec;  // Of all, where it is empty.
};

/// A share of the inputs for each of the codecs. Returns how many were done.
template <typename Strip, Codings codings>
std::uint64_t fuzz(const char* name, const Options& options, std::uint64_t inputs) {
  if (!options.codec.empty() && options.codec != name) return 0;
  const auto start = std::chrono::steady_clock::now();
  Fuzz<Strip, codings> one(name);
  std::uint64_t done = 0;
  for (std::uint64_t seed = options.seed; done < inputs; ++seed)
    done += one(seed, inputs == 1 ? ~std::uint64_t{0} : inputs - done);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%-17s %llu inputs in %.1f s, %.0f a second\n", name,
              static_cast<unsigned long long>(done), took.count(),
              static_cast<double>(done) / took.count());
  std::fflush(stdout);
  return done;
}

struct Entry {
  std::string name;
  std::uint64_t (*run)(const char* name, const Options& options, std::uint64_t inputs);
};

/// Adds each class of a codec's strips once, named by the codec and the first type of its values.
template <Codec codec, Coder coder>
void add_strips(std::vector<Entry>& all) {
  if constexpr (coder == Coder::strips)
    for (const auto& type : compression::kDtypes)
      CodecOf<codec>::with_strip(type.dtype, [&]<typename Strip>(Strip) {
        constexpr Codings kCodings = CodecOf<codec>::kOneCoding ? Codings::one : Codings::several;
        const auto run = &fuzz<Strip, kCodings>;
        const auto same = [&](const Entry& one) { return one.run == run; };
        if (std::none_of(all.begin(), all.end(), same))
          all.push_back({std::string(entry_of(codec).name) + "-" + type.name, run});
      });
}

std::vector<Entry> all_strips() {
  std::vector<Entry> all;
#define LANESCOPE_ADD(name, number, coder, ...) add_strips<Codec::name, Coder::coder>(all);
  LANESCOPE_CODECS(LANESCOPE_ADD)
#undef LANESCOPE_ADD
  return all;
}

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "%s; use: compress_fuzz [--inputs N] [--seed S] [--codec NAME]\n", what);
  std::exit(2);
}

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != 0) refuse("not a number");
  return value;
}

Options options_of(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (i + 1 == count) refuse("an option lacks its value");
    if (name == "--inputs")
      options.inputs = number(arguments[i + 1]);
    else if (name == "--seed")
      options.seed = number(arguments[i + 1]);
    else if (name == "--codec")
      options.codec = arguments[i + 1];
    else
      refuse("no such option");
  }
  return options;
}

}  // namespace
}  // namespace lanescope::compress

int main(int count, char** arguments) {
  using namespace lanescope::compress;
  const Options options = options_of(count, arguments);
  __sanitizer_set_death_callback(tell_now);
  const std::vector<Entry> all = all_strips();
  const std::uint64_t codecs = options.codec.empty() ? all.size() : 1;
  std::uint64_t done = 0;
  for (const Entry& entry : all)
    done += entry.run(entry.name.c_str(), options, (options.inputs + codecs - 1) / codecs);
  if (done == 0) refuse("no input, or no such codec");
  std::printf("%llu inputs, nothing wrong\n", static_cast<unsigned long long>(done));
}
