#include "lanescope/parallel.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lanescope {

namespace {

constexpr std::size_t kMostThreads = 16;

}  // namespace

void in_parallel(std::size_t count, std::size_t least,
                 const std::function<void(std::size_t, std::size_t)>& part, std::size_t threads) {
  if (threads == 0)
    threads = std::min<std::size_t>(std::thread::hardware_concurrency(), kMostThreads);
  threads = std::clamp<std::size_t>(count / least, 1, std::max<std::size_t>(threads, 1));
  std::exception_ptr failure;
  std::mutex lock;
  auto run = [&](std::size_t number) {
    try {
      part(count * number / threads, count * (number + 1) / threads);
    } catch (...) {  // beyond its thread it would end the process
      const std::lock_guard guard(lock);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < threads; ++i) {
      try {
        helpers.emplace_back(run, i);
      } catch (const std::system_error&) {
        run(i);  // no thread more is allowed: it only takes longer
      }
    }
    run(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lanescope
