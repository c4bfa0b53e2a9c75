#include "watch/cupti_api.hpp"

#include "error.hpp"

namespace lanescope::watch {

namespace {

using Words = CUptiResult (*)(CUptiResult, const char**);

std::string words_of(const Library& library, const char* function, CUptiResult result) {
  const auto words = reinterpret_cast<Words>(library.find(function));
  const char* text = nullptr;
  if (words == nullptr || words(result, &text) != CUPTI_SUCCESS || text == nullptr) return "";
  return text;
}

}  // namespace

void CuptiApi::check(CUptiResult result, const char* name, std::source_location where) const {
  if (result == CUPTI_SUCCESS) return;
  const std::string code = words_of(library, "cuptiGetResultString", result);
  const std::string detail = words_of(library, "cuptiGetErrorMessage", result);
  throw Error(name, result, code.empty() ? "CUPTI " + std::to_string(result) : code,
              detail.empty() ? "CUPTI refused" : detail, where);
}

}  // namespace lanescope::watch
