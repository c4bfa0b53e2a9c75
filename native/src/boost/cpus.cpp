#include "boost/cpus.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "boost/driver.hpp"
#include "boost/settings.hpp"

namespace lanescope::boost {

namespace {

constexpr int kLeastCpus = 4, kMostThreads = 12;
constexpr std::uint64_t kShareOfSpare = 8;

using Text = std::array<char, 4096>;

/// @return the text of a small file, without its line end; empty where it cannot be read.
Text text_of(const char* path) noexcept {
  Text text{};
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  const ssize_t got = read(file, text.data(), text.size() - 1);
  close(file);
  if (got > 0 && text[static_cast<std::size_t>(got) - 1] == '\n')
    text[static_cast<std::size_t>(got) - 1] = '\0';
  return text;
}

/// @return CPUs of a list such as "0-15,32-47".
cpu_set_t cpus_of(const char* list) noexcept {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  while (*list != '\0') {
    char* end = nullptr;
    const unsigned long first = std::strtoul(list, &end, 10);
    if (end == list) break;
    unsigned long last = first;
    if (*end == '-') last = std::strtoul(end + 1, &end, 10);
    for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &cpus);
    if (*end != ',') break;
    list = end + 1;
  }
  return cpus;
}

/// @return what is near a GPU by its PCI address, as sysfs has it.
Neighbourhood near_to(const char* address) noexcept {
  Neighbourhood found;
  found.cpus = settings().cpus;
  char path[160], lower[32] = "";
  for (std::size_t i = 0; i + 1 < sizeof lower && address[i] != '\0'; ++i)
    lower[i] = static_cast<char>(std::tolower(static_cast<unsigned char>(address[i])));
  std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", lower);
  const Text node = text_of(path);
  found.node = node[0] == '\0' ? -1 : std::atoi(node.data());
  std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/max_link_speed", lower);
  found.link_gts = std::strtod(text_of(path).data(), nullptr);
  std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/max_link_width", lower);
  found.link_lanes = std::atoi(text_of(path).data());
  std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist", lower);
  cpu_set_t local = cpus_of(text_of(path).data());
  CPU_AND(&local, &local, &found.cpus);
  if (CPU_COUNT(&local) >= kLeastCpus) found.cpus = local;
  return found;
}

/// What limits a process in a cgroup and in all above it.
struct Limits {
  double quota = 0;
  std::uint64_t spare = kNoLimit;

  void take(double quota_here, std::uint64_t spare_here) noexcept {
    if (quota_here > 0 && (quota == 0 || quota_here < quota)) quota = quota_here;
    spare = std::min(spare, spare_here);
  }
};

std::uint64_t number_in(const char* folder, const char* name) noexcept {
  char path[4200];
  std::snprintf(path, sizeof path, "%s/%s", folder, name);
  const Text text = text_of(path);
  if (text[0] < '0' || text[0] > '9') return kNoLimit;  // "max", or nothing there
  return std::strtoull(text.data(), nullptr, 10);
}

std::uint64_t spare_of(std::uint64_t limit, std::uint64_t used) noexcept {
  if (limit == kNoLimit || used == kNoLimit) return kNoLimit;
  return limit > used ? limit - used : 0;
}

void take_second_version(Limits& to, char* folder, std::size_t root_length) noexcept {
  for (std::size_t length = std::strlen(folder); length >= root_length;) {
    char path[4200];
    std::snprintf(path, sizeof path, "%s/cpu.max", folder);
    const Text text = text_of(path);
    double quota = 0, period = 0;
    const bool limited = std::sscanf(text.data(), "%lf %lf", &quota, &period) == 2 && period > 0;
    to.take(limited ? quota / period : 0,
            spare_of(number_in(folder, "memory.max"), number_in(folder, "memory.current")));
    while (length > 0 && folder[length - 1] != '/') --length;
    if (length == 0) return;
    folder[--length] = '\0';
  }
}

/// @return the limits of this process's cgroups, of the second version, else of the first as
/// containers see it.
Limits limits() noexcept {
  constexpr const char* kRoot = "/sys/fs/cgroup";
  Limits found;
  const Text own = text_of("/proc/self/cgroup");
  const char* line = std::strstr(own.data(), "0::/");
  char folder[4160];
  std::snprintf(folder, sizeof folder, "%s%s", kRoot, line == nullptr ? "" : line + 3);
  if (char* end = std::strchr(folder, '\n')) *end = '\0';
  for (std::size_t end = std::strlen(folder); end > 0 && folder[end - 1] == '/';)
    folder[--end] = '\0';
  take_second_version(found, folder, std::strlen(kRoot));
  const std::uint64_t quota = number_in("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us");
  const std::uint64_t period = number_in("/sys/fs/cgroup/cpu", "cpu.cfs_period_us");
  const bool limited = quota != kNoLimit && period != kNoLimit && period > 0;
  found.take(limited ? static_cast<double>(quota) / static_cast<double>(period) : 0,
             spare_of(number_in("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                      number_in("/sys/fs/cgroup/memory", "memory.usage_in_bytes")));
  return found;
}

/// @return bytes of the last-level cache of the CPU that asks, 0: not known.
std::size_t last_level_cache() noexcept {
  const int cpu = std::max(sched_getcpu(), 0);
  for (int level = 4; level >= 2; --level) {
    char path[96];
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/size", cpu,
                  level);
    const Text text = text_of(path);
    char* unit = nullptr;
    const std::size_t size = std::strtoull(text.data(), &unit, 10);
    if (size != 0) return size << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : 0);
  }
  return 0;
}

Host read_host() noexcept {
  Host found;
  const Limits limit = limits();
  found.quota = limit.quota;
  found.spare_memory = limit.spare;
  found.cache = last_level_cache();
  const Text huge = text_of("/sys/kernel/mm/transparent_hugepage/enabled");
  found.huge_by_advice = std::strstr(huge.data(), "[madvise]") != nullptr;
  const Driver& cuda = driver();
  if (!cuda.complete || cuda.cuDeviceGetCount(&found.gpus) != CUDA_SUCCESS) found.gpus = 0;
  found.gpus = std::min(found.gpus, kMostGpus);
  for (int gpu = 0; gpu < found.gpus; ++gpu) {
    char address[32] = "";
    if (cuda.cuDeviceGetPCIBusId(address, sizeof address, gpu) != CUDA_SUCCESS) address[0] = '\0';
    found.near[static_cast<std::size_t>(gpu)] = near_to(address);
  }
  return found;
}

}  // namespace

const Host& host() noexcept {
  static const Host found = read_host();
  return found;
}

int threads_for(int gpu, int wanted) noexcept {
  if (gpu < 0 || gpu >= host().gpus) return 0;
  if (wanted > 0) return wanted;
  const int there = CPU_COUNT(&host().near[static_cast<std::size_t>(gpu)].cpus);
  const double quota = host().quota;
  const int usable = quota > 0 ? std::min(there, static_cast<int>(quota)) : there;
  return usable < kLeastCpus ? 0 : std::min(usable * 3 / 4, kMostThreads);
}

std::size_t ring_within_limits(std::size_t wanted) noexcept {
  const std::uint64_t spare = host().spare_memory;
  return spare == kNoLimit ? wanted : std::min<std::uint64_t>(wanted, spare / kShareOfSpare);
}

}  // namespace lanescope::boost
