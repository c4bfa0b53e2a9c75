#include "host/pages.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "error.hpp"

namespace lanescope {

namespace {

constexpr std::size_t kMostPages = 4096;
constexpr double kMostElsewhere = 0.01;

std::vector<void*> sample_of_pages(const void* data, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(data) / page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(data) + bytes + page - 1) / page;
  const std::size_t all = bytes == 0 ? 0 : end - first, count = std::min(all, kMostPages);
  std::vector<void*> pages;
  for (std::size_t i = 0; i < count; ++i)
    pages.push_back(reinterpret_cast<void*>((first + all * i / count) * page));
  return pages;
}

}  // namespace

double NodePages::share_off(int node) const {
  std::size_t known = 0, off = 0;
  for (const auto& [where, pages] : by_node) {
    known += pages;
    if (where != node) off += pages;
  }
  return known == 0 ? 0 : static_cast<double>(off) / static_cast<double>(known);
}

NodePages node_pages(const void* data, std::size_t bytes) {
  std::vector<void*> pages = sample_of_pages(data, bytes);
  NodePages found;
  std::vector<int> nodes(pages.size(), -1);
  // Without nodes to go to, move_pages moves nothing and tells where each page is. By its
  // number: its function is libnuma's.
  if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0) {
    found.unknown = pages.size();  // a sandbox forbids the call, or the kernel lacks it
    return found;
  }
  for (const int node : nodes) {
    if (node >= 0)
      ++found.by_node[node];
    else
      ++found.unknown;  // minus an errno, of this page
  }
  return found;
}

void require_on_node(const void* data, std::size_t bytes, int node) {
  const double off = node_pages(data, bytes).share_off(node);
  if (off <= kMostElsewhere) return;
  char share[16];
  std::snprintf(share, sizeof share, "%.3g", off * 100);
  throw Error(
      "move_pages", 0, "pages elsewhere",
      std::string(share) + " % of the pages lie on other nodes than h" + std::to_string(node));
}

std::size_t huge_page_bytes(const void* data, std::size_t bytes) {
  std::ifstream smaps("/proc/self/smaps");
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  std::size_t huge = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long first = 0, last = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2)
      inside = first < begin + bytes && last > begin;  // neighbours may share a mapping
    else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kib) == 1)
      huge += kib << 10;
  }
  return std::min(huge, bytes);
}

void require_huge_pages(const void* data, std::size_t bytes) {
  const std::size_t huge = huge_page_bytes(data, bytes);
  if (huge < bytes)
    throw Error("madvise", 0, "no huge pages",
                std::to_string(huge >> 20) + " of " + std::to_string(bytes >> 20) +
                    " MiB are on huge pages");
}

}  // namespace lanescope
