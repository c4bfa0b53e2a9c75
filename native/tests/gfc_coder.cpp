// Codes one chunk by GFC: gfc_coder WORD_BYTES DIMENSIONALITY  < values  > coded bytes
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "compress/codecs/gfc.hpp"

template <typename Word>
int code(int dimensionality) {
  std::vector<Word> values(1 << 12);
  values.resize(std::fread(values.data(), sizeof(Word), values.size(), stdin));
  const auto count = static_cast<std::uint32_t>(values.size());
  using Strip = lanescope::compress::GfcStrip<Word>;
  std::vector<std::uint8_t> out(Strip::bound(count));
  const auto used = Strip::encode(lanescope::compress::HostWarp{}, values.data(), count,
                                  {dimensionality}, out.data(), Strip::bound(count));
  return std::fwrite(out.data(), 1, used, stdout) == used ? 0 : 1;
}

int main(int, char** arguments) {
  const int dimensionality = std::atoi(arguments[2]);
  return arguments[1][0] == '8' ? code<std::uint64_t>(dimensionality)
                                : code<std::uint32_t>(dimensionality);
}
