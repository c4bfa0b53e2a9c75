#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "inject/cupti_library.hpp"
#include "inject/settings.hpp"

namespace lanescope::inject {

/// Where CUPTI asks for buffers, brings them back, tells of calls, and asks for the time.
struct Callbacks {
  CUpti_BuffersCallbackRequestFunc requested;
  CUpti_BuffersCallbackCompleteFunc completed;
  CUpti_CallbackFunc called;
  CUpti_TimestampCallbackFunc clock;
};

/// Turns on in CUPTI what the settings ask for.
class Activation {
 public:
  Activation(const Cupti& cupti, const Settings& settings) : cupti_(cupti), settings_(settings) {}

  /// Begin, unless another profiler is there. One that comes later takes over what is traced from
  /// then on, unless addresses are traced: that keeps others away.
  /// @return false if nothing is traced: another profiler is there, or CUPTI refuses.
  bool begin(const Callbacks& callbacks);

  /// Turn off what was turned on, unless another profiler has come meanwhile.
  void end(const Callbacks& callbacks);

  /// Begin with what CUPTI may allow after cuInit only: calls, and migrations of unified memory.
  /// @return false if some of it is to be tried again later.
  bool begin_rest();

  /// Let begin_rest() trace launches, too, where kernels and calls are traced.
  void want_launches();

  /// @return false, with a note, if another profiler has come meanwhile.
  bool is_alone(CUpti_CallbackFunc called);

  /// Sentences on what is not traced, since the last time.
  std::vector<std::string> take_notes();

 private:
  bool subscribe(CUpti_CallbackFunc called, const char* does);
  void enable_callbacks();
  bool enable_kinds();
  CUptiResult enable_calls(bool (*wanted)(std::string_view), bool on = true);
  CUptiResult enable_migrations();
  bool settled(const char* what, CUptiResult result);
  void set_attributes(const Callbacks& callbacks);
  bool succeeded(const char* what, CUptiResult result);

  const Cupti& cupti_;
  const Settings& settings_;
  CUpti_SubscriberHandle subscriber_{};
  bool calls_pending_ = settings_.calls;
  bool migrations_pending_ = settings_.migrations;
  bool launches_begun_ = false;
  bool launches_pending_ = false;
  std::vector<std::string> notes_;
};

}  // namespace lanescope::inject
