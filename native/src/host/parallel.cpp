#include "host/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "host/interruption.hpp"

namespace lanescope {

namespace {

constexpr std::size_t kMostThreads = 16;
// Of what one thread does, so that it can end in between.
constexpr std::size_t kMostPieces = 16;
// A piece is so many times what is worth a thread, at least.
constexpr std::size_t kWorth = 4;

}  // namespace

void in_parallel(std::size_t count, std::size_t least,
                 const std::function<void(std::size_t, std::size_t)>& part, std::size_t threads) {
  if (threads == 0)
    threads = std::min<std::size_t>(std::thread::hardware_concurrency(), kMostThreads);
  threads = std::clamp<std::size_t>(count / least, 1, std::max<std::size_t>(threads, 1));
  std::exception_ptr failure;
  std::atomic<bool> failed = false;
  std::mutex lock;
  auto run = [&](std::size_t number) {
    try {
      const std::size_t first = count * number / threads, last = count * (number + 1) / threads;
      const std::size_t all = last - first;
      const std::size_t pieces = std::clamp<std::size_t>(all / least / kWorth, 1, kMostPieces);
      for (std::size_t i = 0; i < pieces && !failed; ++i) {
        if (number == 0) throw_if_interrupted();
        part(first + all * i / pieces, first + all * (i + 1) / pieces);
      }
    } catch (...) {  // beyond its thread it would end the process
      failed = true;
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
