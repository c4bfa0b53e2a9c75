#include "watch/link_probe.hpp"

#include <exception>
#include <span>
#include <utility>

#include "watch/cuda_link.hpp"

namespace lanescope::watch {

namespace {

constexpr std::chrono::milliseconds kFlush{50};  // what a kill may take with it

std::unique_ptr<ProbedLink> link_of(int device, const ProbeSettings& settings) {
  require_sound(settings);
  return std::make_unique<CudaLink>(device, settings.chunk_bytes);
}

}  // namespace

LinkProbe::LinkProbe(int device, const ProbeSettings& settings, const CounterSpool::Target& target)
    : LinkProbe(link_of(device, settings), settings, target) {}

LinkProbe::LinkProbe(std::unique_ptr<ProbedLink> link, const ProbeSettings& settings,
                     const CounterSpool::Target& target)
    : link_(std::move(link)), rounds_(*link_, settings), file_(target.path, target.header) {}

void LinkProbe::start() {
  worker_.start([this](const Worker::Pause& pause) { work(pause); });
}

ProbeReport LinkProbe::stop() {
  worker_.stop();
  return report_;
}

void LinkProbe::work(const Worker::Pause& pause) {
  const auto begin = flushed_ = Clock::now();
  try {
    link_->enter();
    probe(pause);
  } catch (const std::exception& error) {
    report_.errors.push_back(std::string("Probing ended early: ") + error.what() + ".");
  }
  flush();
  if (file_.failure()) report_.errors.push_back(*file_.failure());
  report_.cpu_seconds = thread_cpu_seconds();
  report_.wall_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
}

void LinkProbe::probe(const Worker::Pause& pause) {
  const ProbedLink::Stopping stopping = [&] { return !pause(Clock::time_point{}); };
  for (auto begin = Clock::now(); !file_.failure(); begin = Clock::now()) {
    const auto before = records_.size();
    const bool whole = rounds_.run(stopping, records_);
    report_.records += records_.size() - before;
    if (!whole) return;
    ++report_.rounds;
    if (Clock::now() - flushed_ >= kFlush) flush();
    const std::chrono::nanoseconds took = Clock::now() - begin;
    const auto after = rounds_.next_after(static_cast<std::uint64_t>(took.count()));
    if (!pause(begin + std::chrono::nanoseconds(after))) return;
  }
}

void LinkProbe::flush() {
  file_.append(std::as_bytes(std::span(records_)));
  records_.clear();
  flushed_ = Clock::now();
}

}  // namespace lanescope::watch
