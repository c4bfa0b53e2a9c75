#pragma once

#include <deque>
#include <memory>

#include "compress/ticket.hpp"

namespace lanescope::compress {

/// The transfers of a channel that have not ended, and what they use until then.
class InFlight {
 public:
  explicit InFlight(ReportPool& reports) : reports_(reports) {}

  /// Before the first of its work is put on a stream: it must not be lost whatever comes.
  void add(std::shared_ptr<Ticket> ticket) { tickets_.push_back(std::move(ticket)); }

  /// Of those that were not taken back.
  bool is_empty() const { return tickets_.empty(); }

  /// Takes back what the ended ones used. Throws `Error` where the device failed.
  void reap();

  /// Whether all ended within so many seconds.
  bool all_end_within(double patience_s) noexcept;

 private:
  ReportPool& reports_;
  std::deque<std::shared_ptr<Ticket>> tickets_;
};

}  // namespace lanescope::compress
