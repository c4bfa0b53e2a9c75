#include "library/seam.hpp"

#include <new>

#include "error.hpp"

namespace lanescope::compression {

namespace {

Error error_for_users(const lanescope::Error& error) {
  const std::string& name = error.name();
  if (name == "bad block" && error.call() == "wait")
    return {ErrorCode::damaged, 0, error.detail() + "; send it again"};
  if (name == "bad update")
    return {ErrorCode::damaged, 0, error.detail() + "; send the whole array, without a base"};
  if (name == "bad block" || name == "bad stream")
    return {ErrorCode::damaged, 0, "this is no stream that can be read: " + error.detail()};
  if (name == "too late")
    return {ErrorCode::too_late, 0, error.detail() + "; look at what its streams wait for"};
  if (name == "no memory") return {ErrorCode::no_memory, error.code(), error.detail()};
  if (error.code() == 0) return {ErrorCode::bad_input, 0, error.detail()};
  const bool memory = name == "cudaErrorMemoryAllocation";  // by name: no header of CUDA needed
  return {memory ? ErrorCode::no_memory : ErrorCode::cuda, error.code(),
          error.call() + " failed: " + error.detail()};
}

}  // namespace

void throw_for_users() {
  try {
    throw;
  } catch (const lanescope::Error& error) {
    throw error_for_users(error);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::no_memory, 0, "the host has no memory left");
  }
}

void refuse(const std::string& sentence) {
  throw Error(ErrorCode::bad_input, 0, sentence);
}

}  // namespace lanescope::compression
