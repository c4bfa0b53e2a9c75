#include "inject/spool_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "watch/spool_room.hpp"

namespace lanescope::inject {

namespace {

constexpr int kMostFiles = 1000;  // of one pid

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

}  // namespace

bool SpoolFile::open(const std::string& folder, pid_t pid) noexcept try {
  const std::string stem = folder + "/trace." + std::to_string(pid);
  for (int number = 0; number < kMostFiles; ++number) {
    const std::string path = stem + (number == 0 ? "" : "." + std::to_string(number)) + ".bin";
    if (file_.open(path, O_WRONLY | O_CREAT | O_EXCL, 0644)) {
      if (watch::SpoolRoom(folder).is_locked())
        watched_.open(folder + watch::SpoolRoom::kFile, O_RDONLY);
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
} catch (...) {
  return false;
}

int SpoolFile::append(const void* bytes, std::size_t size) noexcept {
  if (is_over()) file_.close();
  const int descriptor = file_.get();
  // it may be another one than the last time
  if (descriptor < 0 || lseek(descriptor, size_, SEEK_SET) != size_) return EBADF;
  const int error = write_all(descriptor, static_cast<const char*>(bytes), size);
  if (error == 0)
    size_ += static_cast<off_t>(size);
  else  // no half a record in the middle
    static_cast<void>(!ftruncate(descriptor, size_));
  return error;
}

bool SpoolFile::is_over() noexcept {
  if (over_) return true;
  over_ = file_.is_removed();
  // lanescope holds it for itself as long as it lives; the kernel lets go of it
  const int watched = watched_.get();
  if (!over_ && watched >= 0 && flock(watched, LOCK_SH | LOCK_NB) == 0) {
    flock(watched, LOCK_UN);
    over_ = true;
  }
  return over_;
}

int SpoolFile::write_all(int descriptor, const char* bytes, std::size_t size) noexcept {
  WithoutSizeSignal guard;
  for (std::size_t done = 0; done < size;) {
    const ssize_t written = ::write(descriptor, bytes + done, size - done);
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

}  // namespace lanescope::inject
