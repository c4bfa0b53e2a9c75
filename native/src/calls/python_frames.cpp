#include "calls/python_frames.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "calls/line_table.hpp"

namespace lanescope::calls {

namespace {

// The same in all versions that are known.
constexpr std::uint32_t kTypeAt = 8, kSizeAt = 16, kStringStateAt = 32, kBytesAt = 32;
constexpr std::uint64_t kTags = 7;                            // in the lowest bits of an address
constexpr std::size_t kMostFrames = 2 * PythonFrames::kMost;  // with those that run no Python
constexpr std::uint64_t kMostInstructions = 1 << 24;
constexpr std::uint64_t kLongestTable = 1 << 20;  // bytes that are looked at
constexpr std::size_t kLongestFile = 448, kLongestFunction = 128;
constexpr std::uint64_t kLongestString = 1 << 16;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

/// Append a character as UTF-8; one that would end a line or a field, and half a pair, as '?'.
std::size_t put_character(std::uint32_t code, char* to) noexcept {
  if (code < 0x20 || code == 0x7F || (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF)
    code = '?';
  const int tails = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kHeads[] = {0, 0xC0, 0xE0, 0xF0};
  to[0] = static_cast<char>(kHeads[tails] | code >> 6 * tails);
  for (int i = 1; i <= tails; ++i) to[i] = static_cast<char>(0x80 | (code >> 6 * (tails - i) & 63));
  return static_cast<std::size_t>(tails) + 1;
}

}  // namespace

int PythonFrames::find(const PythonLayout& layout, std::uint64_t thread_state,
                       std::size_t most) noexcept {
  layout_ = &layout;
  count_ = 0;
  memory_.forget();
  std::uint64_t frame = 0;
  if (!memory_.read_value(thread_state + layout.thread_frame, frame)) return -1;
  if (layout.inner_frame >= 0 && frame != 0 &&
      !memory_.read_value(frame + static_cast<std::uint32_t>(layout.inner_frame), frame))
    return -1;
  if (frame == 0) return 0;
  std::array<std::uint64_t, kMost> codes;
  std::size_t looked = 0;
  for (; frame != 0 && count_ < most && looked < kMostFrames; ++looked) {
    PythonFrame& found = frames_[count_];
    std::uint8_t owner = 0;
    if (!memory_.read_value(frame + layout.frame_owner, owner) ||
        !memory_.read_value(frame + layout.frame_code, found.code) ||
        !memory_.read_value(frame + layout.frame_instruction, found.instruction) ||
        !memory_.read_value(frame + layout.frame_previous, frame))
      break;
    found.code &= ~kTags;
    if (owner < layout.first_outside) codes[count_++] = found.code;
  }
  if (count_ == 0) return looked == 0 ? -1 : 0;
  count_ = read_each({codes.data(), count_}, heads_, sizeof(CodeHead));
  std::size_t codes_there = 0;
  while (codes_there < count_ && heads_[codes_there].at<std::uint64_t>(kTypeAt) == layout.code_type)
    ++codes_there;
  count_ = codes_there;
  return count_ == 0 ? -1 : static_cast<int>(count_);
}

std::uint64_t PythonFrames::key() noexcept {
  std::uint64_t hash = count_;
  for (std::size_t i = 0; i < count_; ++i) {
    const CodeHead& head = heads_[i];
    hash = mixed(mixed(hash, frames_[i].code), frames_[i].instruction);
    const std::uint32_t version_at = layout_->code_version;
    hash = mixed(hash, version_at == 0 ? content_key(i) : head.at<std::uint32_t>(version_at));
    for (const std::uint32_t at : {layout_->code_file, layout_->code_function, layout_->code_lines})
      hash = mixed(hash, head.at<std::uint64_t>(at));
  }
  return hash == 0 ? 1 : hash;
}

/// @return a hash of the beginnings of a file's name and of a table of lines.
std::uint64_t PythonFrames::content_key(std::size_t frame) noexcept {
  constexpr std::uint64_t kMostBytes = 256;
  std::uint64_t hash = heads_[frame].at<std::uint32_t>(layout_->code_first_line);
  for (const std::uint32_t at : {layout_->code_file, layout_->code_lines}) {
    const auto object = heads_[frame].at<std::uint64_t>(at);
    std::uint64_t size = 0;
    std::array<std::uint64_t, kMostBytes / sizeof(std::uint64_t)> content{};
    if (!memory_.read_value(object + kSizeAt, size)) continue;
    size = std::min(size, kMostBytes);
    const std::uint64_t begin =
        object + (at == layout_->code_file ? layout_->ascii_bytes : kBytesAt);
    if (!memory_.read(begin, content.data(), size)) continue;
    for (const std::uint64_t part : content) hash = mixed(hash, part);
  }
  return hash;
}

bool PythonFrames::is_library(std::size_t frame) noexcept {
  std::array<char, kLongestFile> file;
  const auto at = heads_[frame].at<std::uint64_t>(layout_->code_file);
  const std::string_view path(file.data(), read_string(at, file, true));
  if (path.starts_with("<frozen ")) return true;
  for (const std::string_view part : {"/site-packages/", "/dist-packages/", "/lib/python3."})
    if (path.find(part) != std::string_view::npos) return true;
  return false;
}

std::size_t PythonFrames::describe(std::size_t frame, std::span<char> to) noexcept {
  const CodeHead& head = heads_[frame];
  std::array<char, kLongestFile> file;
  std::array<char, kLongestFunction> function;
  const auto file_at = head.at<std::uint64_t>(layout_->code_file);
  const auto function_at = head.at<std::uint64_t>(layout_->code_function);
  const std::size_t file_bytes = read_string(file_at, file, true);
  const std::size_t function_bytes = read_string(function_at, function, false);
  if (file_bytes == 0 || function_bytes == 0) return 0;
  const int size =
      std::snprintf(to.data(), to.size(), "%c%lld\t%.*s\t%.*s\n", is_library(frame) ? 'l' : 'p',
                    static_cast<long long>(line_of(frame)), static_cast<int>(function_bytes),
                    function.data(), static_cast<int>(file_bytes), file.data());
  return size < 0 || static_cast<std::size_t>(size) >= to.size() ? 0
                                                                 : static_cast<std::size_t>(size);
}

/// @return the bytes of a string of Python's in UTF-8: its beginning, or its `end`, where it is
/// longer than there is room; 0 where it is no string.
std::size_t PythonFrames::read_string(std::uint64_t at, std::span<char> to, bool end) noexcept {
  std::uint64_t type = 0, length = 0;
  std::uint32_t state = 0;
  if (!memory_.read_value(at + kTypeAt, type) || type != layout_->string_type ||
      !memory_.read_value(at + kSizeAt, length) || !memory_.read_value(at + kStringStateAt, state))
    return 0;
  const std::uint32_t width = state >> 2 & 7;
  const bool compact = (state >> 5 & 1) != 0, ascii = (state >> 6 & 1) != 0;
  if (!compact || (width != 1 && width != 2 && width != 4) || length > kLongestString) return 0;
  const std::uint64_t text = at + (ascii ? layout_->ascii_bytes : layout_->other_bytes);
  constexpr std::size_t kLongestCharacter = 4;
  const std::uint64_t most = ascii ? to.size() : to.size() / kLongestCharacter;
  const std::uint64_t first = end && length > most ? length - most : 0;
  std::size_t size = 0;
  for (std::uint64_t i = first; i < std::min(length, first + most); ++i) {
    std::uint32_t code = 0;  // of this machine's order of bytes, the lowest first
    if (!memory_.read(text + i * width, &code, width)) return 0;
    size += put_character(code, to.data() + size);
  }
  return size;
}

std::int64_t PythonFrames::line_of(std::size_t frame) noexcept {
  const CodeHead& head = heads_[frame];
  const std::int64_t first = head.at<std::int32_t>(layout_->code_first_line);
  const std::uint64_t start = frames_[frame].code + layout_->code_start;
  const std::uint64_t instruction = (frames_[frame].instruction - start) / 2;
  const auto table = head.at<std::uint64_t>(layout_->code_lines);
  std::uint64_t type = 0, size = 0;
  if (frames_[frame].instruction < start || instruction > kMostInstructions ||
      !memory_.read_value(table + kTypeAt, type) || type != layout_->bytes_type ||
      !memory_.read_value(table + kSizeAt, size))
    return first;
  size = std::min(size, kLongestTable);
  std::uint64_t at = 0;
  const auto next = [&] {
    std::uint8_t byte = 0;
    if (at >= size || !memory_.read_value(table + kBytesAt + at, byte)) return -1;
    ++at;
    return static_cast<int>(byte);
  };
  return line_of_instruction(next, first, static_cast<std::int64_t>(instruction));
}

}  // namespace lanescope::calls
