#include "lanescope/watch/pm_sampler.hpp"

#include <algorithm>
#include <utility>

#include "lanescope/error.hpp"

namespace lanescope::watch {

namespace {

// An image that becomes full loses the samples behind it, as was seen on an H200: after each
// such decoding came a gap. So there is room for four times what is expected.
constexpr std::size_t kRoom = 4;
constexpr std::size_t kFewestSamples = 1024;
constexpr std::size_t kMostSamples = 4'000'000;  // 356 MB
constexpr int kMostOverflows = 5;
constexpr int kMostFetchesAfterStop = 200;

std::size_t samples_in(std::chrono::nanoseconds time, std::uint64_t interval_ns) {
  const auto expected = static_cast<std::uint64_t>(time.count()) / interval_ns;
  return std::clamp<std::size_t>(kRoom * expected, kFewestSamples, kMostSamples);
}

PmSettings with_driver(PmSettings settings) {
  open_cuda();
  return settings;
}

}  // namespace

PmSampler::PmSampler(PmSettings settings, std::uint64_t decode_period_ns,
                     const CounterSpool::Target& target, const std::string& cupti)
    : api_(std::make_shared<const CuptiApi>(cupti)),
      session_(api_, with_driver(std::move(settings))),
      period_(decode_period_ns),
      spool_(target, session_.settings().interval_ns, true),
      image_(session_.make_image(samples_in(period_, session_.settings().interval_ns))) {}

void PmSampler::start() {
  session_.start();
  started_ = decoded_ = Clock::now();
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
      if (fetch_all() == Decoded::overflow) restart();
    finish();
  } catch (const std::exception& error) {
    report_.errors.push_back(std::string("Sampling ended early: ") + error.what() + ".");
  }
  spool_.flush();
  spool_.complete(report_);
  report_.cpu_seconds = thread_cpu_seconds();
  report_.wall_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
}

void PmSampler::finish() {
  session_.stop();
  // The hardware's last samples arrive a moment after the call; an empty fetching is the end.
  for (int i = 0; i < kMostFetchesAfterStop; ++i) {
    const auto before = spool_.stream().counts().samples;
    if (fetch_all() == Decoded::overflow || spool_.stream().counts().samples == before) return;
  }
}

Decoded PmSampler::fetch_all() {
  while (true) {
    const auto before = spool_.stream().counts().samples;
    const Decoded decoded = fetch();
    const bool more = spool_.stream().counts().samples != before;
    if (more) overflows_ = 0;
    if (decoded != Decoded::full || !more) return decoded;
  }
}

Decoded PmSampler::fetch() {
  CounterImage& image = image_for(Clock::now() - decoded_);
  const Decoded decoded = decode(image);
  const double before = thread_cpu_seconds();
  session_.evaluate(image, spool_.stream());  // of what was kept before an overflow, too
  image.clear();
  large_image_.reset();
  report_.evaluate_cpu_seconds += thread_cpu_seconds() - before;
  spool_.flush();
  return decoded;
}

Decoded PmSampler::decode(CounterImage& image) {
  const double before = thread_cpu_seconds();
  const Decoded decoded = session_.decode(image);
  report_.decode_cpu_seconds += thread_cpu_seconds() - before;
  ++report_.reads;
  decoded_ = Clock::now();
  return decoded;
}

void PmSampler::restart() {
  if (++overflows_ > kMostOverflows)
    throw Error("cuptiPmSamplingDecodeData", CUPTI_ERROR_OUT_OF_MEMORY, "buffer overflow",
                "the hardware's buffer ran over again and again");
  // To stop and start is not enough: once it has run over, CUPTI says so for ever.
  session_.reopen();
  image_ = session_.make_image(image_.capacity());
  spool_.stream().begin_again();
  session_.start();
  decoded_ = Clock::now();
  ++report_.restarts;
}

CounterImage& PmSampler::image_for(Clock::duration since_last) {
  const auto wanted = samples_in(since_last, session_.settings().interval_ns);
  // Twice what is expected is room enough where the thread is a little late.
  if (wanted / 2 <= image_.capacity()) return image_;
  return large_image_.emplace(session_.make_image(wanted));
}

}  // namespace lanescope::watch
