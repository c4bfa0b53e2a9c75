#include "boost/tally.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "boost/settings.hpp"

namespace lanescope::boost {

namespace {

constexpr int kMostFiles = 10000;  // of one pid, which changes its program or is in many namespaces

int new_tally_file(char* path, std::size_t room) noexcept {
  for (int number = 0; number < kMostFiles; ++number) {
    const int length = std::snprintf(path, room, "%s/boost.%d.%d", tally_folder(),
                                     static_cast<int>(getpid()), number);
    if (length < 0 || static_cast<std::size_t>(length) >= room) return -1;
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/// @return a tally in a new file; null where there can be none. A limit on sizes of files would end
/// the program, and so would a write into a page for which there is no room.
Tally* in_file() noexcept {
  rlimit limit{};
  if (*tally_folder() == '\0') return nullptr;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(Tally)) return nullptr;
  char path[4200];
  const int file = new_tally_file(path, sizeof path);
  if (file < 0) return nullptr;
  void* mapped = MAP_FAILED;
  if (posix_fallocate(file, 0, sizeof(Tally)) == 0)
    mapped = mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) {
    unlink(path);
    return nullptr;
  }
  auto* tally = static_cast<Tally*>(mapped);  // a new file is all zeros
  tally->process.store(static_cast<std::uint64_t>(getpid()));
  tally->magic.store(kTallyMagic);
  return tally;
}

}  // namespace

Tally& tally() noexcept {
  static Tally nowhere;
  static Tally* const found = in_file();
  return found == nullptr ? nowhere : *found;
}

}  // namespace lanescope::boost
