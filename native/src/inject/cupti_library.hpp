#pragma once

#include <cupti.h>

#include <cstdint>
#include <string>

namespace lanescope::inject {

/// The functions of CUPTI that tracing uses, loaded at run time. Those of the second list may
/// be missing in older libraries; they are null then.
struct Cupti {
#define LANESCOPE_NEEDED(X)            \
  X(cuptiGetVersion)                   \
  X(cuptiGetResultString)              \
  X(cuptiSubscribe)                    \
  X(cuptiUnsubscribe)                  \
  X(cuptiActivityRegisterCallbacks)    \
  X(cuptiActivityEnable)               \
  X(cuptiActivityDisable)              \
  X(cuptiActivityGetNextRecord)        \
  X(cuptiActivityGetNumDroppedRecords) \
  X(cuptiActivityFlushAll)             \
  X(cuptiActivitySetAttribute)
#define LANESCOPE_OPTIONAL(X)               \
  X(cuptiSubscribe_v2)                      \
  X(cuptiSetThreadIdType)                   \
  X(cuptiEnableCallback)                    \
  X(cuptiGetCallbackName)                   \
  X(cuptiActivityEnableDriverApi)           \
  X(cuptiActivityEnableRuntimeApi)          \
  X(cuptiActivityRegisterTimestampCallback) \
  X(cuptiActivityConfigureUnifiedMemoryCounter)
#define LANESCOPE_DECLARE(name) decltype(&::name) name = nullptr;
  LANESCOPE_NEEDED(LANESCOPE_DECLARE)
  LANESCOPE_OPTIONAL(LANESCOPE_DECLARE)
#undef LANESCOPE_DECLARE

  std::string path;           ///< of the library, or its plain name where the linker found it
  std::uint32_t version = 0;  ///< of its interface, e.g. 130001

  /// Load the library: the one that the program has loaded already, else the one that is named,
  /// else one of the usual places. It is never unloaded.
  /// @return an empty text, or why there is none.
  std::string load(const std::string& named);

  /// @return CUPTI's name for a result.
  const char* text(CUptiResult result) const noexcept;
};

}  // namespace lanescope::inject
