#pragma once

#include <sched.h>

#include <cstddef>

namespace lanescope::boost {

/// What `lanescope boost` passes on in LANESCOPE_BOOST, or a user who calls for copies from Python:
/// words such as "threads=4 ring=67108864
/// from=262144 only=h2d dry". What is not understood counts as not there.
struct Settings {
  bool wanted = false;           ///< The variable is there.
  int threads = 0;               ///< That copy; 0: as many as the machine is thought to spare.
  std::size_t ring = 256 << 20;  ///< Bytes of pinned memory of the process, at most.
  std::size_t from = 256 << 10;  ///< Bytes of copies that are carried, at least.
  bool to_gpu = true, from_gpu = true;
  bool always = false;  ///< Carry what can be, whether it pays or not.
  bool batch = false;   ///< Gather small copies.
  bool dry = false;     ///< Carry nothing, and count what would be.
  cpu_set_t cpus{};     ///< What this process might run on as it began.
};

/// @return the settings of this process, taken when the library is loaded: a program may empty its
/// environment, and bind its threads.
const Settings& settings() noexcept;

/// @return where the numbers of this process go, LANESCOPE_BOOST_FOLDER; empty: nowhere.
const char* tally_folder() noexcept;

}  // namespace lanescope::boost
