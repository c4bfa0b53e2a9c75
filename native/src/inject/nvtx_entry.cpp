#include <pthread.h>

#include <cstring>
#include <cwchar>
#include <string>
#include <string_view>

#include "inject/entry.hpp"
#include "inject/nvtx_api.hpp"
#include "inject/range_log.hpp"
#include "inject/settings.hpp"

namespace lanescope::inject {

namespace {

using Handle = const std::string;

void append_utf8(std::string& to, char32_t code) {
  if (code >= 0x110000 || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  if (code < 0x80) {
    to += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr int kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  to += static_cast<char>(kFirst[more] | code >> (6 * more));
  for (int left = more - 1; left >= 0; --left)
    to += static_cast<char>(0x80 | (code >> (6 * left) & 0x3F));
}

Handle* text_of(const char* text) noexcept {
  if (text == nullptr) return range_log().text("");
  return range_log().text({text, strnlen(text, RangeLog::kLongestName)});
}

Handle* text_of(const wchar_t* text) noexcept try {
  std::string narrow;
  for (; text != nullptr && *text != 0 && narrow.size() < RangeLog::kLongestName; ++text)
    append_utf8(narrow, static_cast<char32_t>(*text));
  return range_log().text(narrow);
} catch (...) {  // no memory
  return range_log().text("");
}

Handle* text_of(const nvtx::Attributes* attributes) noexcept {
  constexpr std::size_t kWhole = offsetof(nvtx::Attributes, message) + sizeof(void*);
  if (attributes == nullptr || attributes->size < kWhole || attributes->message == nullptr)
    return range_log().text("");
  switch (attributes->message_kind) {
    case nvtx::kAscii:
      return text_of(static_cast<const char*>(attributes->message));
    case nvtx::kWide:
      return text_of(static_cast<const wchar_t*>(attributes->message));
    case nvtx::kRegistered:
      return static_cast<Handle*>(attributes->message);  // what register_string returned
    default:
      return range_log().text("");
  }
}

void add(EdgeKind kind, Handle* domain, Handle* name, std::uint64_t id) noexcept {
  const SameErrno guard;
  if (range_log().add(kind, domain, name, id)) write_ranges();
}

// A domain's handle is its name; the default domain's is null.
template <class Message>
int push_in(Handle* domain, Message message) noexcept {
  const SameErrno guard;
  add(EdgeKind::push, domain, text_of(message), 0);
  return nvtx::kNoLevels;
}
int pop_in(Handle* domain) noexcept {
  add(EdgeKind::pop, domain, nullptr, 0);
  return nvtx::kNoLevels;
}
template <class Message>
std::uint64_t start_in(Handle* domain, Message message) noexcept {
  const SameErrno guard;
  const std::uint64_t id = range_log().next_id();
  add(EdgeKind::start, domain, text_of(message), id);
  return id;
}
void end_in(Handle* domain, std::uint64_t id) noexcept {
  add(EdgeKind::end, domain, nullptr, id);
}

template <class Message>
int push(Message message) noexcept {
  return push_in<Message>(nullptr, message);
}
int pop() noexcept {
  return pop_in(nullptr);
}
template <class Message>
std::uint64_t start(Message message) noexcept {
  return start_in<Message>(nullptr, message);
}
void end(std::uint64_t id) noexcept {
  end_in(nullptr, id);
}
template <class Letter>
Handle* register_string(Handle*, const Letter* text) noexcept {
  const SameErrno guard;
  return text_of(text);
}
template <class Letter>
Handle* create_domain(const Letter* name) noexcept {
  const SameErrno guard;
  return text_of(name);
}

/// Puts handlers where NVTX looks for them.
class Handlers {
 public:
  Handlers(const nvtx::ExportedCallbacks& exported, nvtx::Module module) {
    if (exported.table(module, &table_, &size_) == 0) size_ = 0;
  }

  template <class Function>
  void set(std::uint32_t place, Function* function) {
    if (place < size_ && table_[place] != nullptr)
      *table_[place] = reinterpret_cast<nvtx::Handler>(function);
  }

 private:
  nvtx::Table table_ = nullptr;
  std::uint32_t size_ = 0;
};

void set_handlers(const nvtx::ExportedCallbacks& exported) {
  using nvtx::Attributes;
  Handlers core(exported, nvtx::Module::core);
  core.set(nvtx::kRangeStartEx, start<const Attributes*>);
  core.set(nvtx::kRangeStartA, start<const char*>);
  core.set(nvtx::kRangeStartW, start<const wchar_t*>);
  core.set(nvtx::kRangeEnd, end);
  core.set(nvtx::kRangePushEx, push<const Attributes*>);
  core.set(nvtx::kRangePushA, push<const char*>);
  core.set(nvtx::kRangePushW, push<const wchar_t*>);
  core.set(nvtx::kRangePop, pop);
  Handlers core2(exported, nvtx::Module::core2);
  core2.set(nvtx::kDomainRangeStartEx, start_in<const Attributes*>);
  core2.set(nvtx::kDomainRangeEnd, end_in);
  core2.set(nvtx::kDomainRangePushEx, push_in<const Attributes*>);
  core2.set(nvtx::kDomainRangePop, pop_in);
  core2.set(nvtx::kDomainRegisterStringA, register_string<char>);
  core2.set(nvtx::kDomainRegisterStringW, register_string<wchar_t>);
  core2.set(nvtx::kDomainCreateA, create_domain<char>);
  core2.set(nvtx::kDomainCreateW, create_domain<wchar_t>);
}

/// Only once, though each library of the program that has NVTX's headers calls.
void begin_ranges() {
  static const bool begun = [] {
    pthread_atfork(nullptr, nullptr, [] { range_log().in_child(); });
    ranges_begun();
    return true;
  }();
  static_cast<void>(begun);
}

}  // namespace

}  // namespace lanescope::inject

/// Called by NVTX at its first use in each library of a program.
/// @return 1 for success; 0 makes NVTX go on as without a tool.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    lanescope::inject::nvtx::GetExported exported) {
  using namespace lanescope::inject;
  const SameErrno guard;
  try {
    const Settings settings = settings_from_environment();
    if (settings.folder.empty() || !settings.ranges || exported == nullptr) return 0;
    const auto* callbacks = static_cast<const nvtx::ExportedCallbacks*>(exported(nvtx::kCallbacks));
    if (callbacks == nullptr || callbacks->size < sizeof *callbacks) return 0;
    begin_ranges();
    set_handlers(*callbacks);
    if (!settings.need_cupti()) begin_tracer();  // else CUDA does it
    return 1;
  } catch (...) {  // no memory; the program goes on without
    return 0;
  }
}
