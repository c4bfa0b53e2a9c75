#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/report.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// What a transfer is.
struct TransferFacts {
  std::string route;  ///< For people: "from GPU 0 to GPU 1".
  std::size_t bytes = 0;
  std::size_t wire_bytes = 0;  ///< What crosses the link, where nothing is encoded on the way.
  bool compressed = false;
  std::string why_raw;  ///< Why it goes raw although it was to be compressed; empty otherwise.
  std::size_t parts = 0;
  std::size_t part_blocks = 0;
  bool encodes = false;
  bool decodes = false;
  bool is_update = false;  ///< Compressed as differences to a base.
  std::string base_place;  ///< Of an update, for people: who holds the base that it is put onto.

  /// Of a report: an update has one more, for its base.
  std::size_t reported_parts() const { return parts + (is_update ? 1 : 0); }
};

/// What a transfer took that others shared a link with for some of its time: half of that, and all
/// of the rest. So those of several add up to the time in which the link was busy.
inline double own_seconds(double lasted, double with_before, double with_next) {
  const double shared = std::clamp(with_before, 0.0, lasted) + std::clamp(with_next, 0.0, lasted);
  return lasted - std::min(shared, lasted) / 2;
}

/// A transfer on its way, and what became of it. Channels make it; who holds it may ask from any
/// thread.
class Ticket {
 public:
  /// `report` is null where nothing is coded.
  Ticket(TransferFacts facts, int timing_device, std::unique_ptr<Report> report);
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  const TransferFacts& facts() const noexcept { return facts_; }

  /// Whether all of it has ended, well or not. Throws `Error` where the device failed.
  bool done();

  /// Returns when it has ended. Throws `Error` if a block came in damaged, which is named, or an
  /// update was for another base, or if it takes longer than so many seconds.
  void wait(double patience_s);

  /// The sentence about what came in damaged, or for another base, once it is done; empty if
  /// nothing did.
  std::string damage();

  /// What to do about that.
  const char* remedy() const noexcept;

  /// From the first to the last step on the devices, by their clock, less half of what it shared
  /// with the transfer that it followed and the next one. Once it is done; 0 where there was
  /// nothing to do.
  double seconds();

  /// What crossed the link, entries included. Once it is done.
  std::size_t wire_bytes();

  // For channels.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);

  /// `next` may begin before `before` has ended: each takes half of what they share of the time.
  static void follow(const std::shared_ptr<Ticket>& next, const std::shared_ptr<Ticket>& before);

  /// The last thing recorded; after it, it counts as being on its way.
  void settle_behind(cudaStream_t stream);

  /// Lets what comes later on a stream of the current device wait for the end of it.
  void let_wait_for_it(cudaStream_t stream);

  /// For a transfer of nothing.
  void settle_now();

  /// Its end could not be put on a stream: whoever asks is told why.
  void fail(const Error& error);

  const Report& report() const noexcept { return *report_; }
  std::unique_ptr<Report> take_report();

  /// Called once, when it is done, with the bytes of payloads of each part, and of an update the
  /// sum of the encoder's base.
  void when_done(std::function<void(std::span<const unsigned long long>)> action);

  /// Called once where a device fails before it is done.
  void when_failed(std::function<void()> action);

 private:
  enum class Stage { preparing, under_way, failed, done };

  void finish();
  double seconds_taken() const;
  double seconds_with_before() const;
  double seconds_with_next() const;
  void call_for_rescue();

  std::mutex mutex_;
  TransferFacts facts_;
  Event begin_, end_, settled_;
  std::shared_ptr<Ticket> before_;
  std::weak_ptr<Ticket> next_;
  std::unique_ptr<Report> report_;
  std::function<void(std::span<const unsigned long long>)> action_;
  std::function<void()> rescue_;
  std::optional<Error> failure_;
  Stage stage_ = Stage::preparing;
  std::atomic<bool> begun_{false}, ended_{false};  // also looked at by those before and behind
  double seconds_ = 0;
  std::size_t wire_bytes_ = 0;
  std::string damage_;
};

}  // namespace lanescope::compress
