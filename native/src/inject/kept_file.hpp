#pragma once

#include <sys/types.h>

#include <string>

namespace lanescope::inject {

/// A file in a folder of spools that stays open in a process that belongs to somebody else. Nothing
/// here throws.
///
/// The descriptor is a high one, which no standard stream takes, and is closed by exec; it is
/// checked before each use, because a program may close descriptors that it did not open.
class KeptFile {
 public:
  /// Open `path` with `flags`, following no link; `mode` is of a new file.
  /// @return false, with errno, if it cannot be.
  bool open(std::string path, int flags, mode_t mode = 0) noexcept;

  /// @return the descriptor, opened again where the program has closed it; -1 if that fails.
  int get() noexcept;

  void close() noexcept;

  /// @return whether the file has no name any more.
  bool is_removed() const noexcept;

 private:
  bool is_ours() const noexcept;

  std::string path_;
  int access_ = 0;  ///< of the flags, without those that make a file
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace lanescope::inject
