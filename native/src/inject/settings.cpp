#include "inject/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace lanescope::inject {

namespace {

constexpr long kLongestPeriodMs = 60'000;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void ask_for(Settings& settings, const std::string& kind) {
  if (kind == "copy")
    settings.copies = true;
  else if (kind == "memset")
    settings.memsets = true;
  else if (kind == "kernel")
    settings.kernels = true;
  else if (kind == "migration")
    settings.migrations = true;
  else if (kind == "call")
    settings.calls = true;
  else if (kind == "range")
    settings.ranges = true;
  else if (kind == "address")
    settings.addresses = true;
  else if (kind == "hash")
    settings.addresses = settings.hashes = true;
  else if (kind == "content")
    settings.addresses = settings.contents = true;
  else if (!kind.empty() && settings.unknown.empty())
    settings.unknown = kind;
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  settings.folder = variable("LANESCOPE_TRACE_FOLDER");
  settings.library = variable("LANESCOPE_CUPTI");
  std::string kinds = variable("LANESCOPE_TRACE_KINDS");
  if (kinds.empty()) kinds = "copy,memset,call";
  std::istringstream list(kinds);
  for (std::string kind; std::getline(list, kind, ',');) ask_for(settings, kind);
  settings.nodes = variable("LANESCOPE_TRACE_NODES") != "0";
  if (const std::string period = variable("LANESCOPE_TRACE_FLUSH_MS"); !period.empty())
    settings.flush_every = std::chrono::milliseconds(
        std::clamp(std::strtol(period.c_str(), nullptr, 10), 0L, kLongestPeriodMs));
  return settings;
}

}  // namespace lanescope::inject
