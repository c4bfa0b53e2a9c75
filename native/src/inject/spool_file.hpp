#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lanescope::inject {

/// The file that a process writes its spool to. Nothing here throws or ends the process.
///
/// The process belongs to somebody else, so this keeps away from what is his: the descriptor is
/// a high one, which no standard stream takes; it is closed by exec; it is checked before each
/// write, because a program may close descriptors that it did not open; and a limit on file
/// sizes, which a write would be punished for with SIGXFSZ, is an error like a full disk.
class SpoolFile {
 public:
  /// Create `folder`/trace.`pid`.bin. A pid that had a file already (after exec, or in another
  /// pid namespace) gets trace.`pid`.1.bin and so on.
  /// @return false if the folder cannot be written to.
  bool open(const std::string& folder, pid_t pid) noexcept;

  /// Append `size` bytes, all of them or none.
  /// @return 0, or the errno of what stood in the way; a later try may succeed.
  int append(const void* bytes, std::size_t size) noexcept;

 private:
  bool is_ours() const noexcept;
  bool is_removed() const noexcept;
  bool reopen() noexcept;
  int write_all(const char* bytes, std::size_t size) noexcept;

  std::string path_;
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  off_t size_ = 0;
};

}  // namespace lanescope::inject
