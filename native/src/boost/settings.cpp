#include "boost/settings.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace lanescope::boost {

namespace {

constexpr const char* kOptions = "LANESCOPE_BOOST";
constexpr const char* kFolder = "LANESCOPE_BOOST_FOLDER";

struct Taken {
  Settings settings;
  char folder[4096] = "";
};

void take_word(Settings& to, std::string_view word) noexcept {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view text = equals == std::string_view::npos ? "" : word.substr(equals + 1);
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  if (name == "threads") to.threads = static_cast<int>(value);
  if (name == "ring") to.ring = value;
  if (name == "from") to.from = value;
  if (name == "only") (text == "h2d" ? to.from_gpu : to.to_gpu) = false;
  if (name == "always") to.always = true;
  if (name == "batch") to.batch = true;
  if (name == "dry") to.dry = true;
}

Taken taken() noexcept {
  Taken now;
  const char* options = std::getenv(kOptions);
  if (sched_getaffinity(0, sizeof now.settings.cpus, &now.settings.cpus) != 0)
    CPU_ZERO(&now.settings.cpus);
  if (options == nullptr) return now;
  now.settings.wanted = true;
  std::string_view words = options;
  while (!words.empty()) {
    const std::size_t end = words.find(' ');
    take_word(now.settings, words.substr(0, end));
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  const char* folder = std::getenv(kFolder);
  if (folder != nullptr && std::strlen(folder) < sizeof now.folder) std::strcpy(now.folder, folder);
  return now;
}

const Taken& once() noexcept {
  static const Taken found = taken();
  return found;
}

__attribute__((constructor)) void take_settings() noexcept {
  once();
}

}  // namespace

const Settings& settings() noexcept {
  return once().settings;
}

const char* tally_folder() noexcept {
  return once().folder;
}

}  // namespace lanescope::boost
