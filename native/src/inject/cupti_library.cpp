#include "inject/cupti_library.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <array>
#include <vector>

namespace lanescope::inject {

namespace {

// Newest first: a program that has one of them must not be given a second.
constexpr std::array kNames{"libcupti.so.14", "libcupti.so.13", "libcupti.so.12"};

std::vector<std::string> usual_places() {
  std::vector<std::string> places;
  for (const char* pattern :
       {"/usr/local/cuda/lib64/libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
        "/usr/local/cuda*/targets/*/lib/libcupti.so.1[234]"}) {
    glob_t found;
    if (glob(pattern, 0, nullptr, &found) == 0)
      places.insert(places.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
  }
  places.insert(places.end(), kNames.begin(), kNames.end());
  return places;
}

void* loaded_already() {
  for (const char* name : kNames)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return library;
  return nullptr;
}

void* open_library(const std::string& named) {
  if (void* library = loaded_already()) return library;
  if (!named.empty()) return dlopen(named.c_str(), RTLD_NOW);
  for (const std::string& place : usual_places())
    if (void* library = dlopen(place.c_str(), RTLD_NOW)) return library;
  return nullptr;
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

}  // namespace

std::string Cupti::load(const std::string& named) {
  void* library = open_library(named);
  if (library == nullptr)
    return named.empty() ? "no libcupti was found"
                         : "libcupti cannot be loaded: " + std::string(dlerror());
  path = path_of(library);
#define LANESCOPE_FIND(function) \
  function = reinterpret_cast<decltype(function)>(dlsym(library, #function));
#define LANESCOPE_REQUIRE(function) \
  LANESCOPE_FIND(function)          \
  if (function == nullptr) return path + " has no " #function;
  LANESCOPE_NEEDED(LANESCOPE_REQUIRE)
  LANESCOPE_OPTIONAL(LANESCOPE_FIND)
#undef LANESCOPE_REQUIRE
#undef LANESCOPE_FIND
  cuptiGetVersion(&version);
  return "";
}

const char* Cupti::text(CUptiResult result) const noexcept {
  const char* name = nullptr;
  if (cuptiGetResultString(result, &name) != CUPTI_SUCCESS || name == nullptr)
    return "unknown error";
  return name;
}

}  // namespace lanescope::inject
