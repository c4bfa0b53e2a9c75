#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "library/rule_costs.hpp"

namespace lanescope::compression {

// What the rule knows: of arrays with one tag, and of all of one type on one path. Both hold what
// arrays become by each codec, and what compressed transfers took; the tag's counts for more, the
// more of its arrays have come and the less alike tags are.

/// What arrays become by a codec.
struct ShareOf {
  Codec codec;
  int dimensionality;
  double share;         // of the wire; a mean in which the newest counts a twelfth at least
  int count = 1;        // arrays in it
  bool anew = false;    // they changed: what others become, or these did before, says nothing
  bool looked = false;  // at some blocks, and nothing else

  void take(double newest);
};

struct TimedOutcome {
  double bytes, wire_bytes, seconds;
};

/// What transfers of a size class took by a codec.
struct SpeedOf {
  Codec codec;
  int size;
  Newest<TimedOutcome> outcomes{};
};

struct Evidence {
  std::vector<ShareOf> shares;
  std::vector<SpeedOf> speeds;

  ShareOf* share_of(Codec codec);
  const ShareOf* share_of(Codec codec) const {
    return const_cast<Evidence*>(this)->share_of(codec);
  }
  SpeedOf* speed_of(Codec codec, int size);
  /// That of the size class that is nearest; null where the codec was never used.
  const SpeedOf* nearest_speed(Codec codec, int size) const;
  SpeedOf& new_speed(Codec codec, int size);
  /// What is known of a codec, made new where nothing is.
  ShareOf& set_share(Codec codec, int dimensionality, double share);
};

/// When arrays may be looked at again, in decisions: after twice as many each time.
class LookTimes {
 public:
  bool never() const { return !last_; }
  int since(int decisions) const { return decisions - last_.value_or(0); }
  bool due(int decisions) const { return since(decisions) >= patience_; }
  void take(int decisions);

 private:
  std::optional<int> last_;
  int patience_ = 0;
};

struct TagEvidence : Evidence {
  int decisions = 0;
  LookTimes looks{};
  bool surprised = false;  // an array became something else than expected
};

/// All of one type on one path.
struct PoolEvidence : Evidence {
  int decisions = 0, last_trial = 0, last_raw = 0, last_doubt = 0, trial_patience = 0;
  int raw_patience = kEvery;  // decisions until the link is timed again; doubled where it is well
  std::optional<Codec> pending;  // of a trial whose outcome is awaited
  LookTimes look_times{};
  std::optional<int> looking;  // since which decision blocks are looked at
  bool sampled = false;        // blocks have been looked at: no trial is needed for ratios
  bool settled = false;        // somebody else chooses the codec
  std::vector<Codec> warm;     // whose kernels have run
  std::size_t turn = 0;        // which codec is tried again
  int doubts = 0;              // transfers that are to go as they are, to time the link
  double spent_seconds = 0, lost_seconds = 0, gained_seconds = 0, spent_at_raw = 0;

  /// A codec's first outcome ends this.
  bool is_first(Codec codec);
  bool waiting() const;
  bool looks() const;
  void begin_trial(std::optional<Codec> codec);
  /// `off`: how much it differs from the tag's mean, and from that of all.
  void take_difference(std::optional<double> of_tag, std::optional<double> of_all);
  /// As many arrays' worth all tags' mean counts against those of one tag.
  double weight() const;
  /// Whether tags differ by more than arrays of one tag do.
  bool tags_differ() const;
  /// Looks at the link again where something is unlike what was expected.
  void doubt();

 private:
  struct Spread {
    double mean = 0;  // of squares
    int count = 0;
    void take(double difference);
  };
  Spread within_tag_, in_all_;
};

}  // namespace lanescope::compression
