#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "watch/spool_folder.hpp"

namespace lanescope::watch {

/// What of a watch's spools may be written: the finest records go first when room gets short.
enum class Fineness { all, no_kernels, operations_only, nothing };

/// How much room the spools of a watch have left.
///
/// Beside them lies a file with three numbers: the bytes that all of them may take together, those
/// that must stay free on the disk for the program, and 1 where lanescope holds a lock of the file,
/// which not every file system has. Without the file there is no limit.
class SpoolRoom {
 public:
  static constexpr const char* kFile = "/limits";
  static constexpr std::int64_t kLeastRecountNs = 100'000'000;
  static constexpr std::int64_t kFileRecountNs = 10'000'000;  ///< more for each file

  SpoolRoom() = default;
  explicit SpoolRoom(std::string folder) : folder_(std::move(folder)) {
    const int file = open_in_spool_folder(folder_ + kFile, O_RDONLY);
    if (file < 0) return;
    char text[64] = "";
    const ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    int locked = 0;
    limited_ = size > 0 && std::sscanf(text, "%lu %lu %d", &most_, &reserve_, &locked) >= 2;
    locked_ = limited_ && locked != 0;
  }

  /// @return whether lanescope has the file locked as long as it lives.
  bool is_locked() const noexcept { return locked_; }

  /// @return what may be written, if that is `bytes` more. Cheap enough for every write: the folder
  /// is looked through only when a part of what was left then has been used up, or some time later.
  ///
  /// Whoever wrote in the second before the folder was looked through may write as much at the same
  /// time, so there must be room for all of them.
  Fineness allowed(std::uint64_t bytes) noexcept {
    if (!limited_) return Fineness::all;
    if (since_ >= until_recount_ || now_ns() >= recount_ns_) recount();
    const std::uint64_t under_cap = left_of(most_, used_ + since_ + bytes * writers_);
    const std::uint64_t left = std::min(under_cap, left_of(free_bytes(), reserve_ + bytes));
    if (left == 0) return Fineness::nothing;
    const std::uint64_t whole = left + used_ + since_;
    if (left < whole / 4) return Fineness::operations_only;
    return left < whole / 2 ? Fineness::no_kernels : Fineness::all;
  }

  /// Tells of bytes that were written.
  void wrote(std::uint64_t bytes) noexcept { since_ += bytes; }

 private:
  static std::uint64_t left_of(std::uint64_t whole, std::uint64_t used) noexcept {
    return whole > used ? whole - used : 0;
  }

  std::uint64_t free_bytes() const noexcept {
    struct statvfs disk;
    if (statvfs(folder_.c_str(), &disk) != 0) return UINT64_MAX;
    return static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  }

  static std::int64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) noexcept {
    timespec now{};
    clock_gettime(clock, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  }

  void recount() noexcept {
    std::uint64_t sum = 0, files = 0, writers = 0;
    const std::int64_t now_s = now_ns(CLOCK_REALTIME) / 1'000'000'000;
    if (DIR* folder = opendir(folder_.c_str())) {
      while (const dirent* entry = readdir(folder)) {
        struct stat found;
        if (fstatat(dirfd(folder), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(found.st_mode))
          continue;
        sum += static_cast<std::uint64_t>(found.st_size);
        ++files;
        if (found.st_mtim.tv_sec + 1 >= now_s) ++writers;
      }
      closedir(folder);
    }
    used_ = sum;
    since_ = 0;
    writers_ = std::max<std::uint64_t>(writers, 1);
    until_recount_ = std::max<std::uint64_t>(left_of(most_, used_) / 16 / writers_, 4096);
    // a thousand processes with a file each take a tenth of a core for this, all together
    recount_ns_ = now_ns() + kLeastRecountNs + static_cast<std::int64_t>(files) * kFileRecountNs;
  }

  std::string folder_;
  bool limited_ = false;
  bool locked_ = false;
  std::uint64_t most_ = 0;
  std::uint64_t reserve_ = 0;
  std::uint64_t used_ = 0;           ///< by all spools when they were counted
  std::uint64_t since_ = 0;          ///< written here after that
  std::uint64_t writers_ = 1;        ///< of them, at that time
  std::uint64_t until_recount_ = 0;  ///< counted again after so many bytes
  std::int64_t recount_ns_ = 0;      ///< and not later than this
};

}  // namespace lanescope::watch
