#include "compress/device_kernels.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "compress/device_shape.hpp"
#include "compress/strip_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

namespace {

/// Bytes and taken blocks share a word.
constexpr std::size_t kMostBytes = std::size_t{1} << (kUsedBits - 1);

/// How a kernel is laid out over the SMs of a device.
struct KernelLayout {
  unsigned int sms;  ///< That there are.
  unsigned int ctas_per_sm, groups_per_cta;
  std::size_t shared_bytes;  ///< Of a CTA.
};

/// Lets a kernel take so much shared memory. Throws `Error`.
void allow_shared(const void* kernel, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "cudaFuncSetAttribute");
}

/// Lays out a kernel: up to `groups` of warps a CTA, and one CTA an SM, or, if they are `alone`,
/// one a CTA, and as many CTAs as an SM has room for. Throws `Error`.
template <typename Job>
KernelLayout lay_out(const Kernel<Job>& kernel, int device) {
  int sms = 0, most = 0;
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "cudaDeviceGetAttribute");
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel.entry), "cudaFuncGetAttributes");
  const std::size_t there = static_cast<std::size_t>(most) - attributes.sharedSizeBytes;
  int fitting = kernel.groups;
  if (kernel.shared_bytes > 0)
    fitting = std::min(fitting, static_cast<int>(there / kernel.shared_bytes));
  if (fitting < 1)
    throw Error("compress", 0, "bad choice",
                "the SMs of this GPU have " + std::to_string(most) +
                    " bytes of shared memory, too few for this codec; compress on the host");
  const int in_cta = kernel.alone ? 1 : fitting;
  const std::size_t taken = kernel.shared_bytes * static_cast<std::size_t>(in_cta);
  allow_shared(kernel.entry, taken);
  int ctas = 1;
  if (kernel.alone)
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, kernel.entry, kGroupThreads, taken),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return {static_cast<unsigned int>(sms),
          static_cast<unsigned int>(std::clamp(ctas, 1, kernel.groups)),
          static_cast<unsigned int>(in_cta), taken};
}

/// The same for the current device, found out once: that takes as long as some launches.
template <typename Job>
KernelLayout layout_on_device(const Kernel<Job>& kernel) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, KernelLayout> known;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const std::pair key(device, kernel.entry);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, lay_out(kernel, device)).first->second;
}

/// CTAs of a launch: as many as may be used and have something to do.
unsigned int ctas_of(const KernelLayout& layout, std::size_t bytes, int sms) {
  const std::size_t blocks = blocks_of(bytes);
  const unsigned int wanted =
      sms > 0 ? std::min(static_cast<unsigned int>(sms), layout.sms) : layout.sms;
  return static_cast<unsigned int>(std::min(std::size_t{wanted} * layout.ctas_per_sm, blocks));
}

/// Throws `Error` where there is none. That of an update reads a base, too.
template <typename Job>
Kernel<Job> kernel_for(const Choice& choice, bool update) {
  require_possible(choice);
  switch (choice.codec) {
#define LANESCOPE_CASE(name, number, coder, ...)                \
  case Codec::name:                                             \
    if constexpr (Coder::coder != Coder::nvcomp)                \
      return kernel_of<Job, Codec::name>(choice.dtype, update); \
    break;
    LANESCOPE_CODECS(LANESCOPE_CASE)
#undef LANESCOPE_CASE
  }
  return {};
}

void require_aligned(const void* memory) {
  if (reinterpret_cast<std::uintptr_t>(memory) % 16 != 0)
    throw Error("compress", 0, "bad values",
                "an array in a GPU's memory has to begin at a multiple of 16 bytes");
}

Decoding decoding_of(const Choice& choice, const Binding& binding, const Entry* entries,
                     const std::byte* payloads, std::size_t room, std::byte* out, std::size_t bytes,
                     Fault* fault) {
  return {entries,
          payloads,
          room,
          out,
          bytes,
          fault,
          Settings{choice.dimensionality, choice.version},
          static_cast<std::uint32_t>(bytes_of(choice.dtype)),
          binding,
          {},
          {},
          {}};
}

/// Launches the kernel for so many bytes of values.
void decode(const Choice& choice, const Decoding& decoding, std::size_t bytes, int sms,
            cudaStream_t stream) {
  require_aligned(decoding.payloads);
  require_aligned(decoding.out);
  const auto kernel = kernel_for<Decoding>(choice, decoding.put.base != nullptr);
  if (bytes == 0) return;
  const KernelLayout layout = layout_on_device(kernel);
  kernel.launch({ctas_of(layout, bytes, sms), kGroupThreads, layout.shared_bytes, stream},
                decoding);
  check(cudaGetLastError(), "decode_kernel");
}

}  // namespace

void load_kernels(const Choice& choice) {
  for (const bool update : {false, true}) {
    if (update && choice.difference == UpdateKind::none) continue;
    layout_on_device(kernel_for<Encoding>(choice, update));
    layout_on_device(kernel_for<Decoding>(choice, update));
  }
}

void encode_blocks(const Choice& choice, const Values& values, std::size_t bytes, const Sink& sink,
                   int sms, cudaStream_t stream) {
  require_aligned(values.data);
  require_aligned(sink.payloads);
  if (bytes >= kMostBytes)
    throw Error("compress", 0, "bad values", "an array of 512 GiB or more has to go in parts");
  if (sink.taken.base != nullptr) require_aligned(sink.taken.base);
  const auto kernel = kernel_for<Encoding>(choice, sink.taken.base != nullptr);
  if (bytes == 0) return;
  const KernelLayout layout = layout_on_device(kernel);
  const bool followed = sink.progress.stored != nullptr;
  const auto groups =
      followed ? std::min(layout.groups_per_cta, static_cast<unsigned int>(kernel.followed_groups))
               : layout.groups_per_cta;
  const auto threads = groups * kGroupThreads + (followed ? kLanes : 0);
  kernel.launch({ctas_of(layout, bytes, sms), threads, layout.shared_bytes, stream},
                {values, bytes, sink, Settings{choice.dimensionality},
                 static_cast<std::uint32_t>(bytes_of(choice.dtype))});
  check(cudaGetLastError(), "encode_kernel");
}

void decode_blocks(const Choice& choice, const Binding& binding, const Entry* entries,
                   const std::byte* payloads, std::size_t room, std::byte* out, std::size_t bytes,
                   Fault* fault, int sms, cudaStream_t stream, const Arrival& arrival) {
  Decoding decoding = decoding_of(choice, binding, entries, payloads, room, out, bytes, fault);
  decoding.arrival = arrival;
  decode(choice, decoding, bytes, sms, stream);
}

void decode_onto_base(const Choice& choice, const Binding& binding, const Entry* entries,
                      const std::byte* payloads, std::size_t room, const PutBase& put,
                      std::byte* out, std::size_t bytes, Fault* fault, int sms, cudaStream_t stream,
                      const Arrival& arrival) {
  require_aligned(put.base);
  Decoding decoding = decoding_of(choice, binding, entries, payloads, room, out, bytes, fault);
  decoding.arrival = arrival;
  decoding.put = put;
  decode(choice, decoding, bytes, sms, stream);
}

void decode_chosen_blocks(const Choice& choice, const Binding& binding, const Entry* entries,
                          const std::byte* payloads, std::size_t room, std::byte* out,
                          std::size_t bytes, const Chosen& chosen, Fault* fault, int sms,
                          cudaStream_t stream) {
  if (chosen.count == 0) return;
  Decoding decoding = decoding_of(choice, binding, entries, payloads, room, out, bytes, fault);
  decoding.chosen = chosen;
  decode(choice, decoding, chosen.count * kBlockBytes, sms, stream);
}

}  // namespace lanescope::compress
