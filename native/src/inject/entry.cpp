#include "inject/entry.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "inject/header.hpp"
#include "inject/ready.hpp"
#include "inject/settings.hpp"
#include "inject/tracer.hpp"

namespace lanescope::inject {

namespace {

// The process's one tracer. CUPTI's callbacks carry no pointer of ours, so it must be found here.
std::atomic<Tracer*> the_tracer{nullptr};
std::atomic<bool> in_use{false};  // NVTX; it can be before there is a tracer

void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  const SameErrno guard;
  Tracer* tracer = the_tracer.load();
  *buffer = tracer == nullptr ? nullptr : tracer->lend();
  *size = *buffer == nullptr ? 0 : BufferPool::kBytes;
  *most_records = 0;
}

void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                        std::size_t used) {
  const SameErrno guard;
  if (Tracer* tracer = the_tracer.load()) tracer->take_in(buffer, used);
}

void CUPTIAPI called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  const SameErrno guard;
  if (Tracer* tracer = the_tracer.load())
    tracer->take_call(domain, id, *static_cast<const CUpti_CallbackData*>(data));
}

std::uint64_t CUPTIAPI clock() {
  return now_ns();
}

void finish() {
  if (Tracer* tracer = the_tracer.load()) tracer->finish();
}

void begin() {
  Settings settings = settings_from_environment();
  if (settings.folder.empty()) return;
  auto* tracer = new Tracer(std::move(settings));  // for ever, as its description says
  the_tracer.store(tracer);
  // Before it begins: another thread may fork meanwhile.
  pthread_atfork([] { the_tracer.load()->before_fork(); }, [] { the_tracer.load()->after_fork(); },
                 [] { the_tracer.load()->in_child(); });
  tracer->begin();
  std::atexit(finish);
  at_quick_exit(finish);
}

}  // namespace

void begin_tracer() {
  static std::atomic<bool> called{false};
  if (!called.exchange(true)) begin();
}

void write_ranges() noexcept {
  if (Tracer* tracer = the_tracer.load()) tracer->write_ranges();
}

void ranges_begun() noexcept {
  in_use.store(true);
  if (Tracer* tracer = the_tracer.load()) tracer->ranges_begun();
}

bool ranges_in_use() noexcept {
  return in_use.load();
}

Callbacks callbacks() noexcept {
  return {requested, completed, called, clock};
}

}  // namespace lanescope::inject

/// Called by the CUDA driver in cuInit. A program goes on whatever happens here.
/// @return 1, which the driver takes for success.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  const lanescope::inject::SameErrno guard;
  lanescope::inject::wait_until_ready();
  try {
    lanescope::inject::begin_tracer();
  } catch (...) {  // no memory; the program goes on untraced
  }
  return 1;
}
