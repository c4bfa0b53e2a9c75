#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace lanescope::watch {

/// open(2) of a file in a folder of spools. Neither the file nor the folder may be a symbolic link:
/// whoever owns the folder above could lead both elsewhere. A FIFO in a file's place holds nobody.
/// @return a descriptor that exec closes; -1, with errno, if it cannot be opened.
inline int open_in_spool_folder(const std::string& path, int flags, mode_t mode = 0) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash);
  const int folder = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  const int file = ::openat(folder, path.c_str() + (slash == std::string::npos ? 0 : slash + 1),
                            flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
  const int error = errno;
  ::close(folder);
  errno = error;
  return file;
}

}  // namespace lanescope::watch
