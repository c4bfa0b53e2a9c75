#pragma once

#include <chrono>
#include <string>

namespace lanescope::inject {

/// What the launcher asks for, through the environment.
struct Settings {
  std::string folder;   ///< LANESCOPE_TRACE_FOLDER; empty: nothing is traced
  std::string library;  ///< LANESCOPE_CUPTI; empty: looked for in the usual places
  bool copies = false;  ///< LANESCOPE_TRACE_KINDS, a list with commas
  bool memsets = false;
  bool kernels = false;
  bool migrations = false;
  bool calls = false;
  bool ranges = false;
  bool addresses = false;
  bool hashes = false;    ///< of all that is sent to a GPU
  bool contents = false;  ///< hashes of what is sent and what comes back, as far as there is time
  bool nodes = true;      ///< of addresses; not where LANESCOPE_TRACE_NODES is 0
  std::string unknown;    ///< the first kind that is none of these
  std::chrono::milliseconds flush_every{100};  ///< LANESCOPE_TRACE_FLUSH_MS, 0: never

  /// @return whether anything is traced that CUPTI tells: all but ranges.
  bool need_cupti() const noexcept {
    return copies || memsets || kernels || migrations || calls || addresses || hashes;
  }
};

/// @return the settings; copies, memsets and calls where no kinds are named.
Settings settings_from_environment();

}  // namespace lanescope::inject
