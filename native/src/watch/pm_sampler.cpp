#include "watch/pm_sampler.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "error.hpp"

namespace lanescope::watch {

namespace {

// An image that becomes full loses the samples behind it, as was seen on an H200: after each
// such decoding came a gap. So there is room for four times what is expected.
constexpr std::size_t kRoom = 4;
// Twice what is expected is room enough where the thread is late.
constexpr std::size_t kRoomWhenLate = 2;
constexpr std::size_t kFewestSamples = 1024;
constexpr std::size_t kMostSamples = 4'000'000;  // 356 MB without NVLinks
constexpr int kMostOverflows = 5;
constexpr int kMostFetchesAfterStop = 800;
// Where samples come faster than they can be fetched, there are always more.
constexpr std::chrono::milliseconds kLongestFetching{100};
// The first periods after a beginning are 1/8, 1/4 and 1/2 as long: fetchings of different size
// tell soon what a sample costs.
constexpr unsigned kShortPeriods = 3;
constexpr std::chrono::milliseconds kLook{1};
// Of the hardware's buffer, as src/lanescope/watching/sources/pm.py has it.
constexpr std::uint64_t kBytesPerSample = 64, kBytesPerNvlinkSample = 1344;

std::uint64_t buffered_samples(const PmSettings& settings) {
  const std::uint64_t bytes = settings.metrics.size() > 2 ? kBytesPerNvlinkSample : kBytesPerSample;
  return settings.hardware_buffer_bytes / bytes;
}

SamplingPlan plan_of(const PmSettings& settings, std::chrono::nanoseconds period) {
  return {settings.interval_ns, std::max(settings.interval_ns, PmSettings::kLongestIntervalNs),
          period, buffered_samples(settings)};
}

/// Room for `room` times what comes in some time, and for no more than the hardware's buffer may
/// hold, as to make a large image takes long itself.
std::size_t samples_in(std::chrono::nanoseconds time, const PmSettings& settings,
                       std::size_t room) {
  const auto expected = static_cast<std::uint64_t>(time.count()) / settings.interval_ns;
  const auto most =
      std::clamp<std::size_t>(2 * buffered_samples(settings), kFewestSamples, kMostSamples);
  return std::clamp<std::size_t>(room * expected, kFewestSamples, most);
}

PmSettings with_driver(PmSettings settings) {
  open_cuda();
  return settings;
}

}  // namespace

PmSampler::PmSampler(PmSettings settings, std::uint64_t decode_period_ns,
                     const std::vector<CounterSpool::Target>& targets, const std::string& cupti)
    : api_(std::make_shared<const CuptiApi>(cupti)),
      session_(api_, with_driver(std::move(settings))),
      period_(decode_period_ns),
      image_(session_.make_image(samples_in(period_, session_.settings(), kRoom))),
      load_(plan_of(session_.settings(), period_)) {
  if (2 * targets.size() != session_.settings().metrics.size())
    throw Error("PmSampler", 0, "bad settings", "a spool for each two metrics");
  for (const auto& target : targets)
    spools_.push_back(
        std::make_unique<CounterSpool>(target, session_.settings().interval_ns, true));
}

void PmSampler::start() {
  session_.start();
  started_ = decoded_ = fetching_ = Clock::now();
  worker_.start([this](const Worker::Pause& pause) { work(pause); });
}

void PmSampler::settle(std::chrono::nanoseconds longest) const {
  for (const auto until = Clock::now() + longest; !settled_ && Clock::now() < until;)
    std::this_thread::sleep_for(kLook);
}

CounterReport PmSampler::stop() {
  worker_.stop();
  return report_;
}

void PmSampler::work(const Worker::Pause& pause) {
  try {
    for (auto due = next(started_); pause(due); due = next(due)) fetch_and_judge();
    finish();
  } catch (const std::exception& error) {
    report_.errors.push_back(std::string("Sampling ended early: ") + error.what() + ".");
  }
  settled_ = true;
  flush();
  complete();
  report_.cpu_seconds = thread_cpu_seconds();
  report_.wall_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
}

/// When the next fetching is due, after one that was.
PmSampler::Clock::time_point PmSampler::next(Clock::time_point due) const {
  const auto now = Clock::now();
  if (open_) return now;  // samples wait
  const unsigned shorter = std::max(kShortPeriods, fetchings_) - fetchings_;
  const auto period = period_ / (1U << shorter);
  return std::max(due + period, now + std::min(period, period_ / 4));
}

void PmSampler::fetch_and_judge() {
  const auto begin = Clock::now();
  const auto learned = session_.learning(), before_it = covered();
  const bool was_open = open_.has_value();
  decoding_ = evaluating_ = {};
  ++fetchings_;
  const bool overflowed = fetch_all() == Decoded::overflow;
  const auto since = begin - std::exchange(fetching_, begin);
  const Fetched fetched{was_open || open_ ? covered() - before_it : since, overflowed,
                        session_.learning() - learned, decoding_, evaluating_};
  const std::uint64_t interval_ns = load_.add(fetched, spools_.front()->stream().counts());
  if (overflowed && ++overflows_ > kMostOverflows)
    throw Error("cuptiPmSamplingDecodeData", CUPTI_ERROR_OUT_OF_MEMORY, "buffer overflow",
                "the hardware's buffer ran over again and again");
  const bool changed = interval_ns != session_.settings().interval_ns;
  if (changed) change(interval_ns);
  if (overflowed || changed) restart(interval_ns);
  settled_ = load_.settled();
}

void PmSampler::change(std::uint64_t interval_ns) {
  for (const auto& spool : spools_) spool->set_interval(interval_ns);
  const std::chrono::duration<double> since = Clock::now() - started_;
  report_.changes.push_back({since.count(), interval_ns});
}

void PmSampler::finish() {
  session_.stop();
  // The hardware's last samples arrive a moment after the call; an empty fetching is the end.
  for (int i = 0; i < kMostFetchesAfterStop; ++i) {
    const auto before = samples();
    if (fetch_all() == Decoded::overflow || (samples() == before && !open_)) return;
  }
}

Decoded PmSampler::fetch_all() {
  const auto until = Clock::now() + kLongestFetching;
  while (true) {
    const auto before = samples();
    const Decoded decoded = fetch(until);
    const bool more = samples() != before;
    if (more) overflows_ = 0;
    if (decoded != Decoded::full || !more || Clock::now() > until) return decoded;
  }
}

/// @return `full` also where samples wait that have been fetched.
Decoded PmSampler::fetch(Clock::time_point until) {
  if (!open_) {
    CounterImage& image = image_for(Clock::now() - decoded_);
    const Decoded decoded = decode(image);
    open_ = Open{&image, decoded};
  }
  const Decoded decoded = open_->decoded;
  const auto begin = Clock::now();
  const auto learned = session_.learning();
  const bool done = evaluate(until);
  flush();
  evaluating_.took += Clock::now() - begin - (session_.learning() - learned);
  if (done) {
    open_.reset();
    large_image_.reset();
  }
  return done ? decoded : Decoded::full;
}

/// Takes the samples that wait, until a time. @return whether none is left.
bool PmSampler::evaluate(Clock::time_point until) {
  const double before = thread_cpu_seconds();
  // of what was kept before an overflow, too
  const ToldTimes times;
  const auto next =
      session_.evaluate(*open_->image, open_->next, until,
                        [&](std::uint64_t start_ns, std::uint64_t end_ns, auto values) {
                          take(times.read(start_ns), times.read(end_ns), values);
                        });
  const std::size_t end = next ? *next : session_.samples(*open_->image);
  evaluating_.samples += end - std::exchange(open_->next, end);
  if (!next && open_->image == &image_) session_.clear(image_);
  report_.evaluate_cpu_seconds += thread_cpu_seconds() - before;
  return !next;
}

/// How long the samples so far lasted.
std::chrono::nanoseconds PmSampler::covered() const noexcept {
  return std::chrono::nanoseconds(samples() * session_.settings().interval_ns);
}

void PmSampler::take(std::uint64_t start_ns, std::uint64_t end_ns, std::span<const double> values) {
  const bool own = own_.during(start_ns, end_ns);
  for (std::size_t i = 0; i < spools_.size(); ++i)
    spools_[i]->stream().add({start_ns, end_ns, values[2 * i], values[2 * i + 1], own});
}

void PmSampler::flush() {
  for (const auto& spool : spools_) spool->flush();
}

void PmSampler::complete() {
  for (const auto& spool : spools_) spool->complete(report_);
  report_.counts = spools_.front()->stream().counts();  // all have the same samples
  report_.asked = session_.asked();
  report_.contradictions = session_.contradictions();
  report_.formula = session_.formula();
  report_.learning_seconds = std::chrono::duration<double>(session_.learning()).count();
  if (report_.contradictions > 0)
    report_.errors.push_back(
        "CUPTI's samples do not follow from their bytes as expected, so that some may be wrong: "
        "one in 128 was checked.");
}

Decoded PmSampler::decode(CounterImage& image) {
  const double before = thread_cpu_seconds();
  const std::uint64_t begin = watch_time_ns();
  decoded_ = Clock::now();  // what comes meanwhile is for the next one
  const Decoded decoded = session_.decode(image);
  own_.add(begin, watch_time_ns());
  if (decoded != Decoded::overflow) {
    decoding_.took += Clock::now() - decoded_;
    decoding_.samples += session_.samples(image);
  }
  report_.decode_cpu_seconds += thread_cpu_seconds() - before;
  ++report_.reads;
  return decoded;
}

void PmSampler::restart(std::uint64_t interval_ns) {
  // To stop and start is not enough: once it has run over, CUPTI says so for ever.
  const auto begin = Clock::now();
  open_.reset();
  large_image_.reset();
  session_.reopen(interval_ns);
  for (const auto& spool : spools_) spool->stream().begin_again();
  load_.begin_again(interval_ns, spools_.front()->stream().counts());
  session_.start();
  decoded_ = fetching_ = Clock::now();
  fetchings_ = 0;
  report_.restart_seconds += std::chrono::duration<double>(decoded_ - begin).count();
  ++report_.restarts;
  // What is sampled meanwhile waits in the hardware's buffer.
  image_ = session_.make_image(samples_in(period_, session_.settings(), kRoom));
}

CounterImage& PmSampler::image_for(Clock::duration since_last) {
  const auto wanted = samples_in(since_last, session_.settings(), kRoomWhenLate);
  if (wanted <= image_.capacity()) return image_;
  return large_image_.emplace(session_.make_image(wanted, false));
}

}  // namespace lanescope::watch
