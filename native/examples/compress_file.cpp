// Compresses a file of values on the host, and gets it back:
//
//   compress_file compress values.f32 values.z float32 [CODEC]
//   compress_file decompress values.z values.f32
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lanescope/compression.hpp"

namespace lc = lanescope::compression;

namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw lc::Error(lc::ErrorCode::bad_input, 0, sentence);
}

/// The entry of that name in `lc::kCodecs` or `lc::kDtypes`.
template <typename Entry, std::size_t n>
const Entry& named(const Entry (&entries)[n], const std::string& name, const char* what) {
  std::string known;
  for (const Entry& one : entries) {
    if (name == one.name) return one;
    known += std::string(known.empty() ? "" : ", ") + one.name;
  }
  refuse("there is no " + std::string(what) + " " + name + "; there are " + known);
}

std::vector<std::byte> read(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) refuse(path + " is no file");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) refuse(path + " cannot be read");
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) refuse(path + " cannot be read to its end");
  return bytes;
}

void write(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) refuse(path + " cannot be written");
}

void run(const std::vector<std::string>& words) {
  if (words.size() < 3 || words.size() > 5)
    refuse("give compress FILE STREAM [TYPE [CODEC]], or decompress STREAM FILE");
  const std::vector<std::byte> input = read(words[1]);
  if (words[0] == "decompress") {
    write(words[2], lc::decompress(input));
    return;
  }
  lc::Options options;
  if (words.size() > 3) options.dtype = named(lc::kDtypes, words[3], "type of values").dtype;
  if (words.size() > 4) options.codec = named(lc::kCodecs, words[4], "codec").codec;
  const std::vector<std::byte> stream = lc::compress(input, options);
  write(words[2], stream);
  const lc::StreamInfo info = lc::describe(stream);
  std::printf("%s: %zu bytes became %zu\n", lc::entry_of(info.codec).name, info.bytes,
              info.stored_bytes);
}

}  // namespace

int main(int count, char** words) {
  try {
    run({words + 1, words + count});
  } catch (const lc::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
