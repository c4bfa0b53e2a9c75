#include "cuda/gate.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>

#include "cuda/kernels.hpp"

namespace lanescope {

namespace {

// The kernel gives up by itself, so that even a killed process leaves no GPU spinning.
constexpr std::uint64_t kGateTimeoutNs = 10'000'000'000;

}  // namespace

OpenLate::OpenLate(volatile int& open, double patience_s) {
  auto wait = [&open, patience_s](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any stopped;
    const std::chrono::duration<double> patience(patience_s);
    stopped.wait_for(lock, stop, patience, [] { return false; });
    if (!stop.stop_requested()) open = 1;
  };
  try {
    thread_ = std::jthread(wait);
  } catch (const std::system_error& error) {
    throw Error("std::thread", error.code().value(), "no thread", error.what());
  }
}

Gate::Gate(int device) {
  const ScopedDevice scope(device);
  check(cudaHostAlloc(reinterpret_cast<void**>(&words_), sizeof(Words),
                      cudaHostAllocPortable | cudaHostAllocMapped),
        "cudaHostAlloc");
}

Gate::~Gate() {
  words_->open = 1;
  // Freeing waits for the streams, for ever where a GPU answers no more: then it is left.
  if (drained_) forgive(cudaFreeHost(words_));
}

void Gate::run(const std::vector<const Stream*>& streams, const std::function<void()>& queue,
               std::optional<double> patience_s) {
  words_->open = 0;
  words_->timed_out = 0;
  drained_ = false;
  try {
    const OpenOnExit opener(words_->open);
    for (const Stream* stream : streams) {
      const ScopedDevice scope(stream->device());
      launch_gate(stream->get(), &words_->open, &words_->timed_out, kGateTimeoutNs);
    }
    std::optional<OpenLate> late;
    if (patience_s) late.emplace(words_->open, *patience_s);
    queue();
  } catch (...) {
    drained_ = drain(streams, kHangTimeoutS);
    throw;
  }
  wait_for_all(streams, kHangTimeoutS);
  drained_ = true;
  if (words_->timed_out != 0)
    throw Error("Gate::run", 0, "gate timeout", "queueing took longer than the gate waits");
}

void wait_for(const Stream& stream, double timeout_s) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream.get());
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "cudaStreamQuery");
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() > timeout_s)
      throw Error("cudaStreamQuery", static_cast<int>(cudaErrorTimeout),
                  cudaGetErrorName(cudaErrorTimeout),
                  "the GPU did not finish within " + std::to_string(timeout_s) + " s");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void wait_for_all(const std::vector<const Stream*>& streams, double timeout_s) {
  try {
    for (const Stream* stream : streams) wait_for(*stream, timeout_s);
  } catch (...) {
    static_cast<void>(drain(streams, timeout_s));
    throw;
  }
}

bool drain(const std::vector<const Stream*>& streams, double timeout_s) noexcept {
  const auto begin = std::chrono::steady_clock::now();
  bool all = true;
  for (const Stream* stream : streams) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    try {
      wait_for(*stream, timeout_s - waited.count());
    } catch (const Error&) {
      all = false;  // the first failure is the one to tell
    }
  }
  return all;
}

}  // namespace lanescope
