#include "error.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace lanescope {

namespace {

std::string place_of(const std::source_location& where) {
  const std::string file = where.file_name();
  return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(where.line());
}

}  // namespace

Error::Error(std::string call, int code, std::string name, std::string detail,
             std::source_location where)
    : std::runtime_error(call + ": " + detail + " (" + name + ")"),
      call_(std::move(call)),
      code_(code),
      name_(std::move(name)),
      detail_(std::move(detail)),
      where_(place_of(where)) {}

void throw_errno(const std::string& call, std::source_location where) {
  const int code = errno;
  throw Error(call, code, "errno " + std::to_string(code), std::strerror(code), where);
}

}  // namespace lanescope
