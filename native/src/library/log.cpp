#include "library/log.hpp"

#include <exception>
#include <utility>

namespace lanescope::compression {

Outcome Ticket::State::outcome() const {
  return {ticket->seconds(), ticket->facts().bytes, ticket->wire_bytes(),
          ticket->facts().compressed};
}

Outcome Ticket::State::wait(double patience_seconds) {
  try {
    ticket->wait(patience_seconds);
  } catch (const lanescope::Error& error) {
    if (error.name() == "bad block" || error.name() == "bad update") reported = true;
    throw;
  }
  return outcome();
}

void Log::add(std::shared_ptr<Ticket::State> transfer, bool learns) {
  const std::lock_guard lock(mutex_);
  under_way_.push_back({std::move(transfer), learns});
}

void Log::settle() {
  std::string damage;
  {
    const std::lock_guard lock(mutex_);
    // They end in order, or nearly so: what waits behind another costs nothing.
    while (!under_way_.empty() && under_way_.front().transfer->ticket->done()) {
      const UnderWay ended = std::move(under_way_.front());
      under_way_.pop_front();
      const std::string found = ended.transfer->ticket->damage();
      if (found.empty() && ended.learns)
        decider_->learn(ended.transfer->transfer, ended.transfer->decision,
                        ended.transfer->outcome());
      if (!found.empty() && !ended.transfer->reported.exchange(true) && damage.empty())
        damage = found + "; " + ended.transfer->ticket->remedy();
    }
  }
  if (!damage.empty()) throw Error(ErrorCode::damaged, 0, damage);
}

void Log::synchronize(double patience_seconds) {
  std::vector<UnderWay> waited;
  {
    const std::lock_guard lock(mutex_);
    waited.assign(under_way_.begin(), under_way_.end());
  }
  std::exception_ptr first;
  for (const UnderWay& one : waited) {
    const bool known = one.transfer->reported;
    try {
      one.transfer->wait(patience_seconds);
    } catch (const lanescope::Error&) {  // the others shall have ended, too
      if (!known && !first) first = std::current_exception();
    }
  }
  settle();
  if (first) std::rethrow_exception(first);
}

}  // namespace lanescope::compression
