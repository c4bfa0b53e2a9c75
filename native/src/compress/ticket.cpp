#include "compress/ticket.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "compress/slabs.hpp"
#include "compress/stream_order.hpp"

namespace lanescope::compress {

namespace {

/// As long as a transfer may last until a look at it is worth less than the CPU.
constexpr int kEagerLooks = 2000;
constexpr std::chrono::microseconds kPause(50);

std::string damage_told(const Fault& fault, std::size_t part, const TransferFacts& facts) {
  const char* what = fault.what == 1   ? "its payload is none of this codec"
                     : fault.what == 2 ? "its checksum is another"
                     : fault.what == 4 ? "its payload never came"
                                       : "how it is stored is not known";
  const std::size_t block = part * facts.part_blocks + fault.first_block - 1;
  return "block " + std::to_string(block) + " of " + std::to_string(blocks_of(facts.bytes)) +
         " of the array that went " + facts.route + " came in damaged: " + what;
}

bool has_happened(const Event& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status != cudaSuccess) forgive(status);
  return status == cudaSuccess;
}

std::string other_base_told(const TransferFacts& facts) {
  return "the base differs: " + facts.base_place + " holds another array than the one that the " +
         "update which went " + facts.route + " was made against, and stays as it was";
}

}  // namespace

Ticket::Ticket(TransferFacts facts, int timing_device, std::unique_ptr<Report> report)
    : facts_(std::move(facts)),
      begin_(event_on(timing_device, Timing::kept)),
      end_(event_on(timing_device, Timing::kept)),
      settled_(event_on(timing_device, Timing::none)),
      report_(std::move(report)) {}

void Ticket::begin(cudaStream_t stream) {
  record(begin_, stream);
  begun_ = true;
}

void Ticket::end(cudaStream_t stream) {
  record(end_, stream);
  ended_ = true;
}

void Ticket::settle_behind(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  record(settled_, stream);
  stage_ = Stage::under_way;
}

void Ticket::let_wait_for_it(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::under_way) let_wait(stream, settled_);
}

void Ticket::settle_now() {
  const std::lock_guard lock(mutex_);
  wire_bytes_ = facts_.wire_bytes;
  stage_ = Stage::done;
  if (action_) std::exchange(action_, nullptr)({});
}

void Ticket::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  failure_ = error;
  before_.reset();
  stage_ = Stage::failed;
  call_for_rescue();
}

void Ticket::call_for_rescue() {
  if (const auto rescue = std::exchange(rescue_, nullptr)) rescue();
}

void Ticket::when_done(std::function<void(std::span<const unsigned long long>)> action) {
  action_ = std::move(action);
}

void Ticket::when_failed(std::function<void()> action) {
  rescue_ = std::move(action);
}

bool Ticket::done() {
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::preparing) return false;
  if (stage_ == Stage::done) return true;
  if (stage_ == Stage::failed) throw *failure_;
  const cudaError_t status = cudaEventQuery(settled_.get());
  if (status == cudaErrorNotReady) {
    forgive(status);
    return false;
  }
  if (status != cudaSuccess) call_for_rescue();
  check(status, "cudaEventQuery");
  finish();
  return true;
}

void Ticket::follow(const std::shared_ptr<Ticket>& next, const std::shared_ptr<Ticket>& before) {
  next->before_ = before;
  if (!before) return;
  const std::lock_guard lock(before->mutex_);
  before->next_ = next;
}

double Ticket::seconds_taken() const {
  if (!begun_ || !ended_) return 0;
  return own_seconds(end_.seconds_since(begin_), seconds_with_before(), seconds_with_next());
}

/// All of it, where the one before has not ended yet.
double Ticket::seconds_with_before() const {
  if (!before_ || !before_->ended_) return 0;
  if (!has_happened(before_->end_)) return end_.seconds_since(begin_);
  return before_->end_.seconds_since(begin_);
}

double Ticket::seconds_with_next() const {
  const std::shared_ptr<Ticket> next = next_.lock();
  if (!next || !next->begun_ || !has_happened(next->begin_)) return 0;
  const double shared = end_.seconds_since(next->begin_);
  const bool is_over = next->ended_ && has_happened(next->end_);
  return is_over ? std::min(shared, next->end_.seconds_since(next->begin_)) : shared;
}

void Ticket::finish() {
  seconds_ = seconds_taken();
  before_.reset();
  wire_bytes_ = facts_.wire_bytes;
  if (report_ && facts_.encodes) {
    wire_bytes_ = blocks_of(facts_.bytes) * sizeof(Entry);
    for (const auto used : report_->brought_used().first(facts_.parts))
      wire_bytes_ += bytes_used(used);
  }
  if (report_ && facts_.decodes) {
    const auto faults = report_->brought_faults().first(facts_.parts);
    for (std::size_t part = 0; part < faults.size() && damage_.empty(); ++part)
      if (faults[part].blocks != 0) damage_ = damage_told(faults[part], part, facts_);
    if (facts_.is_update && damage_.empty() && report_->brought_faults()[facts_.parts].blocks != 0)
      damage_ = other_base_told(facts_);
  }
  stage_ = Stage::done;
  if (!action_) return;
  const auto action = std::exchange(action_, nullptr);
  if (report_ && facts_.encodes)
    action(report_->brought_used().first(facts_.reported_parts()));
  else
    action({});
}

void Ticket::wait(double patience_s) {
  using Clock = std::chrono::steady_clock;
  const auto late = Clock::now() + std::chrono::duration<double>(patience_s);
  for (int looks = 0; !done(); ++looks) {
    if (Clock::now() > late)
      throw Error("wait", 0, "too late",
                  "the transfer " + facts_.route + " has not ended after " +
                      std::to_string(patience_s) + " s");
    if (looks < kEagerLooks)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kPause);
  }
  const std::string damaged = damage();
  if (!damaged.empty())
    throw Error("wait", 0, facts_.is_update ? "bad update" : "bad block", damaged);
}

std::string Ticket::damage() {
  const std::lock_guard lock(mutex_);
  return damage_;
}

const char* Ticket::remedy() const noexcept {
  return facts_.is_update ? "send the whole array, without a base" : "send it again";
}

double Ticket::seconds() {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

std::size_t Ticket::wire_bytes() {
  const std::lock_guard lock(mutex_);
  return wire_bytes_;
}

std::unique_ptr<Report> Ticket::take_report() {
  const std::lock_guard lock(mutex_);
  return std::move(report_);
}

}  // namespace lanescope::compress
