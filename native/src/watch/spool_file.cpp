#include "watch/spool_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "error.hpp"
#include "watch/spool_folder.hpp"

namespace lanescope::watch {

static_assert(std::endian::native == std::endian::little, "spools are little-endian");

SpoolFile::SpoolFile(const std::string& path, const std::string& header)
    : path_(path), room_(path.substr(0, path.rfind('/'))) {
  descriptor_ = open_in_spool_folder(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0644);
  if (descriptor_ < 0) throw_errno("open of " + path);
  put(header.data(), header.size());
  if (!failure_) return;
  close(descriptor_);
  throw Error("write", 0, "spool ended", *failure_);
}

SpoolFile::~SpoolFile() {
  close(descriptor_);
}

bool SpoolFile::append(std::span<const std::byte> records) {
  if (failure_) return false;
  if (room_.allowed(records.size()) == Fineness::nothing)
    failure_ = "Nothing more was written to " + path_ +
               ": spools may take no more of the disk; --max-spool sets how much.";
  else
    put(records.data(), records.size());
  return !failure_;
}

bool SpoolFile::replace_header(const std::string& header) {
  // Another descriptor: whatever is written to one that appends goes to the end.
  const int file = open_in_spool_folder(path_, O_WRONLY);
  if (file < 0) return false;
  const ssize_t written = pwrite(file, header.data(), header.size(), 0);
  close(file);
  return written == static_cast<ssize_t>(header.size());
}

void SpoolFile::put(const void* data, std::size_t bytes) {
  const char* rest = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, rest, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      failure_ = "Nothing more could be written to " + path_ + ": " + std::strerror(errno) + ".";
      return;
    }
    rest += written;
    room_.wrote(static_cast<std::uint64_t>(written));
    bytes -= static_cast<std::size_t>(written);
  }
}

}  // namespace lanescope::watch
