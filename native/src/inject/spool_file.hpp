#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "inject/kept_file.hpp"

namespace lanescope::inject {

/// The file that a process writes its spool to. Nothing here throws or ends the process.
///
/// The process belongs to somebody else, so this keeps away from what is his: the descriptor is
/// a `KeptFile`'s, and a limit on file sizes, which a write would be punished for with SIGXFSZ, is
/// an error like a full disk.
class SpoolFile {
 public:
  /// Create `folder`/trace.`pid`.bin. A pid that had a file already (after exec, or in another
  /// pid namespace) gets trace.`pid`.1.bin and so on.
  /// @return false if the folder cannot be written to.
  bool open(const std::string& folder, pid_t pid) noexcept;

  /// Append `size` bytes, all of them or none.
  /// @return 0, or the errno of what stood in the way; a later try may succeed.
  int append(const void* bytes, std::size_t size) noexcept;

  /// @return whether nobody reads any more: the spool is removed, or lanescope is gone, and this
  /// process must not fill the disk unseen.
  bool is_over() noexcept;

 private:
  int write_all(int descriptor, const char* bytes, std::size_t size) noexcept;

  KeptFile file_;
  KeptFile watched_;  ///< locked by lanescope
  off_t size_ = 0;
  bool over_ = false;
};

}  // namespace lanescope::inject
