#include "watch/pm_sampler.hpp"

#include <algorithm>
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
constexpr int kMostFetchesAfterStop = 200;
// Where samples come faster than they can be fetched, there are always more.
constexpr std::chrono::milliseconds kLongestFetching{400};
// Of the hardware's buffer, as src/lanescope/watching/sources/pm.py has it.
constexpr std::uint64_t kBytesPerSample = 64, kBytesPerNvlinkSample = 1344;

std::uint64_t buffered_samples(const PmSettings& settings) {
  const std::uint64_t bytes = settings.metrics.size() > 2 ? kBytesPerNvlinkSample : kBytesPerSample;
  return settings.hardware_buffer_bytes / bytes;
}

std::chrono::nanoseconds buffered(const PmSettings& settings) {
  return std::chrono::nanoseconds(buffered_samples(settings) * settings.interval_ns);
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
      load_(buffered(session_.settings())) {
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

CounterReport PmSampler::stop() {
  worker_.stop();
  return report_;
}

void PmSampler::work(const Worker::Pause& pause) {
  try {
    for (auto next = started_ + period_; pause(next);
         next = std::max(next + period_, Clock::now() + period_ / 4))
      fetch_and_judge();
    finish();
  } catch (const std::exception& error) {
    report_.errors.push_back(std::string("Sampling ended early: ") + error.what() + ".");
  }
  flush();
  complete();
  report_.cpu_seconds = thread_cpu_seconds();
  report_.wall_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
}

void PmSampler::fetch_and_judge() {
  const auto begin = Clock::now();
  const auto learned = session_.learning(), before_it = covered();
  const bool was_open = open_.has_value();
  const bool overflowed = fetch_all() == Decoded::overflow;
  const auto since = begin - std::exchange(fetching_, begin);
  const Fetched fetched{was_open || open_ ? covered() - before_it : since, Clock::now() - begin,
                        overflowed, session_.learning() - learned};
  const unsigned factor = load_.add(fetched, spools_.front()->stream().counts());
  if (overflowed && ++overflows_ > kMostOverflows)
    throw Error("cuptiPmSamplingDecodeData", CUPTI_ERROR_OUT_OF_MEMORY, "buffer overflow",
                "the hardware's buffer ran over again and again");
  const std::uint64_t before = session_.settings().interval_ns;
  const std::uint64_t interval_ns = std::min(before * factor, PmSettings::kLongestIntervalNs);
  if (interval_ns != before) lengthen(interval_ns);
  if (overflowed || interval_ns != before) restart(interval_ns);
}

void PmSampler::lengthen(std::uint64_t interval_ns) {
  for (const auto& spool : spools_) spool->lengthen(interval_ns);
  const std::chrono::duration<double> since = Clock::now() - started_;
  report_.lengthened.push_back({since.count(), interval_ns});
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
  const bool done = evaluate(until);
  flush();
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
  if (next) {
    open_->next = *next;
  } else {
    if (open_->image == &image_) session_.clear(image_);
    large_image_.reset();
    open_.reset();
  }
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
  report_.decode_cpu_seconds += thread_cpu_seconds() - before;
  ++report_.reads;
  return decoded;
}

void PmSampler::restart(std::uint64_t interval_ns) {
  // To stop and start is not enough: once it has run over, CUPTI says so for ever.
  open_.reset();
  large_image_.reset();
  session_.reopen(interval_ns);
  image_ = session_.make_image(samples_in(period_, session_.settings(), kRoom));
  for (const auto& spool : spools_) spool->stream().begin_again();
  load_.begin_again(spools_.front()->stream().counts());
  session_.start();
  decoded_ = fetching_ = Clock::now();
  ++report_.restarts;
}

CounterImage& PmSampler::image_for(Clock::duration since_last) {
  const auto wanted = samples_in(since_last, session_.settings(), kRoomWhenLate);
  if (wanted <= image_.capacity()) return image_;
  return large_image_.emplace(session_.make_image(wanted, false));
}

}  // namespace lanescope::watch
