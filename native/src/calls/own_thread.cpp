#include "calls/own_thread.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "inject/same_errno.hpp"

namespace lanescope::calls {

constinit thread_local OwnThread own_thread;

std::uint32_t first_thread_number() noexcept {
  const inject::SameErrno guard;
  return own_thread.number = static_cast<std::uint32_t>(syscall(SYS_gettid));
}

}  // namespace lanescope::calls
