#include "inject/call_names.hpp"

#include <algorithm>
#include <iterator>

namespace lanescope::inject {

namespace {

// Calls whose threads and times are worth their cost: those that move data. A copy inside a
// graph carries the number of the call that launched the graph.
constexpr std::string_view kCalls[] = {"cuMemcpy",      "cu64Memcpy",     "cuMemset",
                                       "cu64Memset",    "cudaMemcpy",     "cudaMemset",
                                       "cuGraphLaunch", "cudaGraphLaunch"};

constexpr std::string_view kLaunches[] = {"cuLaunchKernel", "cuLaunchCooperativeKernel",
                                          "cudaLaunchKernel", "cudaLaunchCooperativeKernel"};

}  // namespace

bool is_launch(std::string_view name) {
  return std::any_of(std::begin(kLaunches), std::end(kLaunches),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

bool is_worth_tracing(std::string_view name) {
  return std::any_of(std::begin(kCalls), std::end(kCalls),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

std::string plain_call_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  for (bool cut = true; cut;) {
    const std::size_t at = name.rfind('_');
    const std::string_view tail = at == std::string_view::npos ? "" : name.substr(at + 1);
    cut = tail == "ptsz" || tail == "ptds" ||
          (tail.size() > 1 && tail[0] == 'v' &&
           tail.find_first_not_of(kDigits, 1) == std::string_view::npos);
    if (cut) name = name.substr(0, at);
  }
  return std::string(name);
}

}  // namespace lanescope::inject
