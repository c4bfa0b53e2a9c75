// Reads copies from its input, a line for each: "choose DIRECTION FRESH BYTES" prints the carrier
// and whether it is a trial; "leave DIRECTION FRESH BYTES" prints whether the driver carries it at
// once; "learn DIRECTION FRESH BYTES CARRIER SECONDS" prints nothing;
// "expected DIRECTION FRESH BYTES CARRIER" prints seconds. Directions: 0 to the GPU, 1 from it;
// carriers: 0 the driver, 1 the ring.
#include <cstdio>
#include <cstring>

#include "boost/decision.hpp"

using namespace lanescope::boost;

int main() {
  static Decision decision;
  char what[16];
  unsigned direction = 0, fresh = 0, carrier = 0;
  unsigned long long bytes = 0;
  double seconds = 0;
  while (std::scanf("%15s %u %u %llu", what, &direction, &fresh, &bytes) == 4) {
    const Kind kind{direction == 0 ? Direction::to_gpu : Direction::from_gpu, fresh != 0, bytes};
    if (std::strcmp(what, "choose") == 0) {
      const Choice choice = decision.choose(kind);
      std::printf("%d %d\n", choice.carrier == Carrier::ring ? 1 : 0, choice.trial ? 1 : 0);
    } else if (std::strcmp(what, "leave") == 0) {
      std::printf("%d\n", decision.leaves_to_driver(kind) ? 1 : 0);
    } else if (std::scanf("%u", &carrier) == 1) {
      const Carrier of = carrier == 1 ? Carrier::ring : Carrier::driver;
      if (std::strcmp(what, "expected") == 0)
        std::printf("%.9g\n", decision.expected(kind, of));
      else if (std::scanf("%lf", &seconds) == 1)
        decision.learn(kind, of, seconds);
    }
    std::fflush(stdout);
  }
}
