#pragma once

#include <utility>

namespace lanescope::inject {

/// Marks that this thread may hold locks of ours, and of CUPTI's: a signal's handler that ends
/// the program may find us so.
class InCallback {
 public:
  InCallback() noexcept : before_(std::exchange(marked_, true)) {}
  ~InCallback() { marked_ = before_; }
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;

  static bool is_marked() noexcept { return marked_; }

 private:
  static inline thread_local bool marked_ = false;
  bool before_;
};

}  // namespace lanescope::inject
