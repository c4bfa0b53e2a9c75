#include "inject/kept_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "watch/spool_folder.hpp"

namespace lanescope::inject {

namespace {

constexpr int kLowestDescriptor = 200;  // out of the way of what programs count on

int moved_up(int descriptor) noexcept {
  const int high = fcntl(descriptor, F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (high < 0) {
    if (descriptor > STDERR_FILENO) return descriptor;  // a low limit on descriptors
    ::close(descriptor);
    return -1;
  }
  ::close(descriptor);
  return high;
}

}  // namespace

bool KeptFile::open(std::string path, int flags, mode_t mode) noexcept try {
  const int made = watch::open_in_spool_folder(path, flags, mode);
  if (made < 0) return false;
  descriptor_ = moved_up(made);
  struct stat found;
  if (descriptor_ < 0 || fstat(descriptor_, &found) != 0) return false;
  path_ = std::move(path);
  access_ = flags & O_ACCMODE;
  device_ = found.st_dev;
  inode_ = found.st_ino;
  return true;
} catch (...) {  // no memory
  return false;
}

int KeptFile::get() noexcept try {
  if (is_ours() || path_.empty()) return descriptor_;
  // Whatever has our number now is the program's: it is not closed.
  const int opened = watch::open_in_spool_folder(path_, access_);
  descriptor_ = opened < 0 ? -1 : moved_up(opened);
  return is_ours() ? descriptor_ : -1;
} catch (...) {  // no memory
  return -1;
}

void KeptFile::close() noexcept {
  if (is_ours()) ::close(descriptor_);
  descriptor_ = -1;
  path_.clear();
}

bool KeptFile::is_ours() const noexcept {
  struct stat found;
  return descriptor_ >= 0 && fstat(descriptor_, &found) == 0 && found.st_dev == device_ &&
         found.st_ino == inode_;
}

bool KeptFile::is_removed() const noexcept {
  struct stat found;
  return is_ours() && fstat(descriptor_, &found) == 0 && found.st_nlink == 0;
}

}  // namespace lanescope::inject
