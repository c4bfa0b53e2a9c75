#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace lanescope::compression {

// What transfers take, as docs/compression-rule.md has it. A codec costs what is expected of it at
// best, times a factor that is learnt.

/// Compressing shall save so much at least that a small error does not make it a loss.
inline constexpr double kMargin = 0.95;
/// The newest time counts so much, all before it the rest.
inline constexpr double kNewest = 0.5;

/// L in GB/s, and a in seconds.
struct LinkCost {
  double gbs;
  double first_seconds;
};

/// A codec so many times as slow as at best, and the slabs of the channel.
struct CodecCost {
  double times;
  std::size_t slab_bytes;
};

/// T_z of so many bytes; the ratio may be infinite.
double compressed_seconds(std::size_t bytes, double ratio, const CodecCost& codec,
                          const LinkCost& link);

/// How many times as slow as `codec` one is by which T_z is `seconds`.
double slowness_of(std::size_t bytes, double ratio, const CodecCost& codec, const LinkCost& link,
                   double seconds);

/// Sizes of one class are within a factor of two.
int size_class(std::size_t bytes);

/// What transfers as they are take: by path and size class, the newest counting most.
class RawTimes {
 public:
  void take(const std::string& path, std::size_t bytes, double seconds);

  /// None where two of the class have not been measured.
  std::optional<double> seconds(const std::string& path, std::size_t bytes) const;

  /// The link that leads to `seconds` of such a size.
  std::optional<LinkCost> link(const std::string& path, std::size_t bytes) const;

 private:
  struct Timed {
    double bytes, seconds;
    int count = 1;
    void take(double newest_bytes, double newest_seconds);
  };
  using Known = std::map<int, Timed>;

  Known known(const std::string& path) const;
  double first_seconds(const std::string& path) const;

  std::map<std::string, Known> timed_;
};

}  // namespace lanescope::compression
