#include "watch/counter_spool.hpp"

namespace lanescope::watch {

void CounterSpool::complete(CounterReport& report) const {
  report.counts = stream_.counts();
  if (report.counts.repeated > 0)
    report.errors.push_back("Samples were dropped whose times ran backwards: " +
                            std::to_string(report.counts.repeated) + ".");
  if (file_.failure()) report.errors.push_back(*file_.failure());
}

}  // namespace lanescope::watch
