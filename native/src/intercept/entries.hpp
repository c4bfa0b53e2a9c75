#pragma once

#include <span>
#include <string_view>

/// Names of the driver's functions. A program finds one by its symbol in the driver's library, such
/// as "cuMemcpyHtoDAsync_v2_ptsz", or by a name, "cuMemcpyHtoDAsync", and a version of CUDA.
namespace lanescope::intercept {

/// Functions that have had their arguments since the first version that has unified addresses, and
/// those whose first form had sizes of 32 bits: what ends their symbols, and the first version of
/// CUDA in which the name has these arguments.
struct FirstForm {
  static constexpr const char* kSuffix = "";
  static constexpr int kLeastVersion = 4000;
};
struct SecondForm {
  static constexpr const char* kSuffix = "_v2";
  static constexpr int kLeastVersion = 3020;
};

/// What is known of one function: how it is found, and what stands in its place; the second of
/// these where each thread has a default stream.
struct Entry {
  std::string_view name;
  std::string_view suffix;
  int least_version;
  void* (*in_place_of[2])(void*) noexcept;
};

/// A symbol without what says that each thread has a default stream.
struct Symbol {
  std::string_view name;
  bool per_thread = false;
};

constexpr Symbol parsed(std::string_view symbol) noexcept {
  for (const std::string_view end : {"_ptds", "_ptsz"})
    if (symbol.ends_with(end)) return {symbol.substr(0, symbol.size() - end.size()), true};
  return {symbol, false};
}

/// @return the entry of a symbol; null if there is none.
constexpr const Entry* entry_of(std::span<const Entry> entries, Symbol symbol) noexcept {
  for (const Entry& entry : entries)
    if (symbol.name.starts_with(entry.name) &&
        symbol.name.substr(entry.name.size()) == entry.suffix)
      return &entry;
  return nullptr;
}

/// @return the entry of a name; null if there is none with these arguments in a version of CUDA.
constexpr const Entry* entry_of(std::span<const Entry> entries, std::string_view name,
                                int cuda_version) noexcept {
  for (const Entry& entry : entries)
    if (entry.name == name) return cuda_version < entry.least_version ? nullptr : &entry;
  return nullptr;
}

/// @return what stands in place of a function that has an entry.
inline void* in_place_of(const Entry& entry, bool per_thread, void* function) noexcept {
  return entry.in_place_of[per_thread ? 1 : 0](function);
}

}  // namespace lanescope::intercept
