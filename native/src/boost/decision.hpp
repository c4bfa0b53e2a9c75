#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lanescope::boost {

enum class Direction : std::uint8_t { to_gpu, from_gpu };
/// What moves a copy's bytes: the driver alone, or our threads and ring of pinned memory.
enum class Carrier : std::uint8_t { driver, ring };

/// What is alike for copies that are decided together.
struct Kind {
  Direction direction = Direction::to_gpu;
  bool fresh = false;  ///< The host memory was never touched: pages have to be had first.
  std::uint64_t bytes = 0;
};

struct Choice {
  Carrier carrier = Carrier::driver;
  bool trial = false;  ///< To learn, and not because it is thought the faster one.
};

/// Chooses what carries each copy, by how long earlier ones took. Copies of each direction, power
/// of two of bytes, and touched or fresh memory are learned from apart; where a class knows nothing
/// of a carrier, that nearest in size does.
///
/// Of copies by one carrier in a row the first one teaches nothing: threads may have been asleep,
/// and memory in no cache. The ring is first, then both in turns, two copies each, until each has
/// `kTrials` outcomes. From then on the one
/// with the smaller middle of its newest outcomes carries, the ring only where it gains at least
/// 3 %; the other one is tried again after 64 decisions, and ever more seldom while that changes
/// nothing. One that was slower and is faster then counts by its newest outcomes. What trials cost
/// has a budget: 5 % of the time of all copies of a direction, and 10 ms. It looks at no clock: the
/// same outcomes lead to the same choices. History is bounded.
class Decision {
 public:
  static constexpr std::size_t kTrials = 3;

  Choice choose(const Kind& kind) noexcept;

  /// Decide without a look at a copy's memory, where it is settled that the driver carries such
  /// copies and no trial is due: looking takes longer than a small copy may lose.
  /// @return whether that is so; else `choose` decides.
  bool leaves_to_driver(const Kind& kind) noexcept;

  /// Take how long a copy took whose stream had nothing else to do.
  void learn(const Kind& kind, Carrier carrier, double seconds) noexcept;

  /// @return what a copy would take, in seconds; 0 where nothing is known.
  [[nodiscard]] double expected(const Kind& kind, Carrier carrier) const noexcept;

 private:
  static constexpr std::size_t kRecent = 7, kSizes = 48, kCarriers = 2;

  /// The newest outcomes of one carrier: seconds a byte.
  struct Outcomes {
    std::array<float, kRecent> rates{};
    std::uint32_t count = 0;

    void add(float rate) noexcept { rates[count++ % kRecent] = rate; }
    [[nodiscard]] double middle() const noexcept;
  };
  struct Class {
    std::array<Outcomes, kCarriers> of{};
    std::uint32_t since_trial = 0, patience = 0;
    Carrier last = Carrier::ring;
    Carrier running = Carrier::ring;  ///< Of the newest choice, and of how many in a row.
    std::uint32_t in_a_row = 0;
    bool tries_again = false;
  };
  /// What a direction's copies took, and what its trials cost beyond what was thought best.
  struct Budget {
    double spent_seconds = 0, lost_seconds = 0;
  };

  Choice choose_of(Class& its, const Kind& kind) noexcept;
  Class& class_of(const Kind& kind) noexcept;
  [[nodiscard]] double rate(const Kind& kind, Carrier carrier) const noexcept;
  [[nodiscard]] Carrier better(const Kind& kind) const noexcept;
  [[nodiscard]] bool affords(const Kind& kind, Carrier carrier) const noexcept;

  std::array<std::array<std::array<Class, kSizes>, 2>, 2> classes_{};
  std::array<Budget, 2> budgets_{};
};

}  // namespace lanescope::boost
