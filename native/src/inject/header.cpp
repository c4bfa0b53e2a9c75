#include "inject/header.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "watch/watch_clock.hpp"

namespace lanescope::inject {

namespace {

constexpr std::size_t kLongestCommand = 32 << 10;  // bytes; the rest of it is left out

/// @return the bytes of the UTF-8 character at the beginning of `text`, 0 if there is none.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF5   ? 0
                           : first >= 0xF0 ? 4
                           : first >= 0xE0 ? 3
                           : first >= 0xC2 ? 2
                                           : 0;
  if (size == 0 || text.size() < size) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  // Too long forms, surrogates and what lies beyond Unicode.
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  for (std::size_t at = 1; at < size; ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80) return 0;
  return size;
}

std::string own_command() {
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string text(kLongestCommand, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file, text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  close(file);
  text.resize(size);
  return text;
}

/// @return what lanescope says, so that all processes have one time; else what it is now.
std::int64_t ahead_of_monotonic() noexcept {
  const char* given = std::getenv("LANESCOPE_TRACE_CLOCK");
  char* end = nullptr;
  const long long ahead = given == nullptr ? 0 : std::strtoll(given, &end, 10);
  return given != nullptr && end != given ? ahead : watch::realtime_ahead_ns();
}

std::string json_list(std::string_view parts) {
  std::string list = "[";
  while (!parts.empty()) {
    const std::size_t end = parts.find('\0');
    if (list.size() > 1) list += ", ";
    list += json_string(parts.substr(0, end));
    parts.remove_prefix(end == std::string_view::npos ? parts.size() : end + 1);
  }
  return list + "]";
}

}  // namespace

std::uint64_t now_ns() noexcept {
  static const std::int64_t ahead_ns = ahead_of_monotonic();
  return watch::steady_ns(ahead_ns);
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (size == 0) {
      quoted += "\\ufffd";
    } else if (first < 0x20 || first == 0x7F) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", first);
      quoted += code;
    } else {
      if (first == '"' || first == '\\') quoted += '\\';
      quoted += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return quoted + "\"";
}

std::string header_line(std::uint64_t start_ns, const std::string& library,
                        std::uint32_t cupti_version) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");  // the driver numbers GPUs by it
  return "{\"source\": \"trace\", \"version\": 1, \"pid\": " + std::to_string(getpid()) +
         ", \"parent\": " + std::to_string(getppid()) +
         ", \"command\": " + json_list(own_command()) + ", \"library\": " + json_string(library) +
         ", \"cupti\": " + std::to_string(cupti_version) +
         ", \"visible_devices\": " + (visible == nullptr ? "null" : json_string(visible)) +
         ", \"clock\": \"CLOCK_REALTIME\", \"start_ns\": " + std::to_string(start_ns) + "}\n";
}

}  // namespace lanescope::inject
