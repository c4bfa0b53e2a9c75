#include "spool_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace lanescope::inject {

namespace {

constexpr int kLowestDescriptor = 200;  // out of the way of what programs count on
constexpr int kMostFiles = 1000;        // of one pid

/// Holds SIGXFSZ back from this thread, and takes away the one that a write has caused.
class WithoutSizeSignal {
 public:
  WithoutSizeSignal() noexcept {
    sigset_t pending;
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~WithoutSizeSignal() {
    constexpr timespec at_once{};
    if (!was_pending_ && too_large_) sigtimedwait(&only_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSizeSignal(const WithoutSizeSignal&) = delete;
  WithoutSizeSignal& operator=(const WithoutSizeSignal&) = delete;

  void too_large() noexcept { too_large_ = true; }

 private:
  sigset_t only_;
  sigset_t before_;
  bool was_pending_ = false;
  bool too_large_ = false;
};

int moved_up(int descriptor) noexcept {
  const int high = fcntl(descriptor, F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (high < 0) {
    if (descriptor > STDERR_FILENO) return descriptor;  // a low limit on descriptors
    close(descriptor);
    return -1;
  }
  close(descriptor);
  return high;
}

}  // namespace

bool SpoolFile::open(const std::string& folder, pid_t pid) noexcept try {
  const std::string stem = folder + "/trace." + std::to_string(pid);
  for (int number = 0; number < kMostFiles; ++number) {
    path_ = stem + (number == 0 ? "" : "." + std::to_string(number)) + ".bin";
    const int made = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made < 0 && errno == EEXIST) continue;
    if (made < 0) return false;
    descriptor_ = moved_up(made);
    struct stat found;
    if (descriptor_ < 0 || fstat(descriptor_, &found) != 0) return false;
    device_ = found.st_dev;
    inode_ = found.st_ino;
    return true;
  }
  return false;
} catch (...) {
  return false;
}

int SpoolFile::append(const void* bytes, std::size_t size) noexcept {
  if (!is_ours() && !reopen()) return EBADF;
  if (is_removed()) {  // the watch is over, this process is not: it must not fill the disk unseen
    close(descriptor_);
    descriptor_ = -1;
    return EBADF;
  }
  const int error = write_all(static_cast<const char*>(bytes), size);
  if (error == 0) {
    size_ += static_cast<off_t>(size);
  } else if (ftruncate(descriptor_, size_) == 0) {  // no half a record in the middle
    lseek(descriptor_, size_, SEEK_SET);
  }
  return error;
}

int SpoolFile::write_all(const char* bytes, std::size_t size) noexcept {
  WithoutSizeSignal guard;
  for (std::size_t done = 0; done < size;) {
    const ssize_t written = ::write(descriptor_, bytes + done, size - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      if (error == EFBIG) guard.too_large();
      return error;
    }
    done += static_cast<std::size_t>(written);
  }
  return 0;
}

bool SpoolFile::is_ours() const noexcept {
  struct stat found;
  return descriptor_ >= 0 && fstat(descriptor_, &found) == 0 && found.st_dev == device_ &&
         found.st_ino == inode_;
}

bool SpoolFile::is_removed() const noexcept {
  struct stat found;
  return fstat(descriptor_, &found) == 0 && found.st_nlink == 0;
}

bool SpoolFile::reopen() noexcept {
  // Whatever has our number now is the program's: it is not closed.
  const int opened = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  descriptor_ = opened < 0 ? -1 : moved_up(opened);
  if (!is_ours()) return false;
  return lseek(descriptor_, size_, SEEK_SET) == size_;
}

}  // namespace lanescope::inject
