#include "calls/recorder.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include "inject/header.hpp"
#include "inject/visible_gpus.hpp"
#include "watch/ticks.hpp"

namespace lanescope::calls {

namespace {

constexpr const char* kFolder = "LANESCOPE_CALLS_FOLDER";

std::atomic<Ring*> the_ring{nullptr};
std::atomic<bool> has_tried{false};
std::mutex making;

std::string description() {
  std::string text = inject::header_line(inject::now_ns(), "", 0);
  inject::VisibleGpus gpus;
  gpus.find_driver();
  for (const std::string& address : gpus.addresses()) text += address + "\n";
  return text;
}

/// What the parent records is its own. A child that uses CUDA has been made before the parent did.
void forget_in_child() noexcept {
  the_ring.store(nullptr);
}

Ring* make() noexcept try {
  const std::lock_guard lock(making);
  if (has_tried.load()) return the_ring.load();
  const char* folder = std::getenv(kFolder);
  if (folder != nullptr && *folder != '\0') the_ring.store(Ring::create(folder, description()));
  if (the_ring.load() != nullptr) pthread_atfork(nullptr, nullptr, forget_in_child);
  has_tried.store(true, std::memory_order_release);
  return the_ring.load();
} catch (...) {  // no memory
  has_tried.store(true);
  return nullptr;
}

}  // namespace

bool is_wanted() noexcept {
  static const bool wanted = [] {
    const char* folder = std::getenv(kFolder);
    return folder != nullptr && *folder != '\0';
  }();
  return wanted;
}

Ring* ring() noexcept {
  if (has_tried.load(std::memory_order_acquire)) return the_ring.load(std::memory_order_relaxed);
  return make();
}

std::uint64_t now() noexcept {
  static const bool steady = watch::ticks_are_steady();
  return steady ? watch::ticks() : static_cast<std::uint64_t>(watch::clock_ns(CLOCK_MONOTONIC));
}

}  // namespace lanescope::calls
