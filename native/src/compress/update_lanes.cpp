#include "compress/update_lanes.hpp"

#include "compress/candidates.hpp"

namespace lanescope::compress {

Differing differing_of(const Choice& choice) {
  return Differing::of(choice.difference, bytes_of(choice.dtype));
}

bool keeps_blocks(const Choice& choice) {
  return !codes_in_order(choice.codec, choice.dtype);
}

void require_possible(const Choice& choice, const std::byte* base, const std::byte* target,
                      std::size_t bytes) {
  require_possible(choice);
  const bool is_update = choice.difference != UpdateKind::none;
  if (is_update != (base != nullptr) && bytes > 0)
    throw Error("send", 0, "bad values",
                is_update ? "an update has no base" : "a base is of no use without an update");
  if (base != nullptr && target != nullptr && base != target &&
      overlap({base, bytes}, {target, bytes}))
    throw Error("send", 0, "bad values",
                "the base overlaps a part of the array for the values; give another one");
}

bool UpdateLanes::are_ready(bool need_memory) {
  if (!loaded_) {
    const ScopedDevice scope(device_);
    load_update_kernels();
    loaded_ = true;
  }
  if (!need_memory || !rooms_.empty() || no_memory_) return !need_memory || !no_memory_;
  try {
    for (std::size_t i = 0; i < lanes_; ++i) rooms_.emplace_back(device_, lane_bytes_);
  } catch (const Error& error) {
    rooms_.clear();
    no_memory_ = error.code() == cudaErrorMemoryAllocation;
    if (!no_memory_) throw;
  }
  return !no_memory_;
}

void UpdateLanes::put(std::size_t lane, const Choice& choice, const std::byte* base, std::byte* out,
                      std::size_t bytes, const Fault* of_slab, const BaseCheck& check,
                      cudaStream_t stream) const {
  put_differences(differing_of(choice), room(lane), base, out, bytes, of_slab, check, stream);
}

void sum_base(const std::byte* base, std::size_t bytes, unsigned long long* sum,
              cudaStream_t stream) {
  check(cudaMemsetAsync(sum, 0, sizeof *sum, stream), "cudaMemsetAsync");
  sum_blocks(base, bytes, sum, stream);
}

}  // namespace lanescope::compress
