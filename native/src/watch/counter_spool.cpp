#include "watch/counter_spool.hpp"

#include <string>
#include <string_view>

#include "error.hpp"

namespace lanescope::watch {

namespace {

/// @return a header with another interval: the line of JSON that Python's `counter_header` makes,
/// whose blanks before the end of the line are for longer numbers. Empty where they are too few.
std::string with_interval(std::string header, std::uint64_t interval_ns) {
  constexpr std::string_view kKey = "\"interval_ns\": ";
  const std::size_t key = header.find(kKey), length = header.size();
  if (key == std::string::npos) return "";
  const std::size_t begin = key + kKey.size();
  const std::size_t end = header.find_first_not_of("0123456789", begin);
  header.replace(begin, end - begin, std::to_string(interval_ns));
  while (header.size() > length && header.size() > 1 && header[header.size() - 2] == ' ')
    header.erase(header.size() - 2, 1);
  if (header.size() < length) header.insert(header.size() - 1, length - header.size(), ' ');
  return header.size() == length ? header : "";
}

}  // namespace

void CounterSpool::set_interval(std::uint64_t interval_ns) {
  stream_.set_interval(interval_ns);
  if (interval_ns <= longest_ns_) return;
  const std::string header = with_interval(header_, interval_ns);
  if (header.empty() || !file_.replace_header(header))
    throw Error("pwrite", 0, "spool ended", "the header of a spool could not be written anew");
  header_ = header;
  longest_ns_ = interval_ns;
}

void CounterSpool::complete(CounterReport& report) const {
  report.counts = stream_.counts();
  if (report.counts.repeated > 0)
    report.errors.push_back("Samples were dropped whose times ran backwards: " +
                            std::to_string(report.counts.repeated) + ".");
  if (file_.failure()) report.errors.push_back(*file_.failure());
}

}  // namespace lanescope::watch
