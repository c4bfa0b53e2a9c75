#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "compress/ticket.hpp"
#include "library/seam.hpp"

namespace lanescope::compression {

struct Ticket::State {
  Transfer transfer;
  Decision decision;
  std::shared_ptr<core::Ticket> ticket;
  std::atomic<bool> reported = false;  ///< Somebody knows what came in damaged.

  Outcome outcome() const;
  Outcome wait(double patience_seconds);
};

/// The transfers of a channel that are under way; who decides is told of those that end.
class Log {
 public:
  explicit Log(std::shared_ptr<Decider> decider) : decider_(std::move(decider)) {}

  /// `learns`: whether its decider wants to know.
  void add(std::shared_ptr<Ticket::State> transfer, bool learns);

  /// Looks which have ended. Throws `Error` if one came in damaged of which nobody was told.
  void settle();

  /// Returns when all have ended. Throws the first `Error` of one of which nobody was told.
  void synchronize(double patience_seconds);

 private:
  struct UnderWay {
    std::shared_ptr<Ticket::State> transfer;
    bool learns;
  };

  std::shared_ptr<Decider> decider_;
  std::mutex mutex_;
  std::deque<UnderWay> under_way_;
};

}  // namespace lanescope::compression
