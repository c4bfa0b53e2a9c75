#pragma once

#ifndef LANESCOPE_HOST_ONLY
#include <cuda_runtime_api.h>
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "codecs.hpp"  // installed beside this one
#include "version.hpp"

/// Compresses arrays without loss, on the host and on NVIDIA GPUs, and moves them compressed from
/// GPU to GPU and from a GPU to the host and back. Link with `lanescope::compression`
/// (docs/cpp.md).
///
/// Streams are those of Python's `lanescope.compress`, to the bit. All functions and classes may
/// be used by several threads. Failures are thrown as `Error`, and as nothing else.
///
/// A `lanescope::compression` that was built without CUDA defines LANESCOPE_HOST_ONLY: then there
/// are streams in the host's memory alone, and no header of CUDA is needed.

#define LANESCOPE_API __attribute__((visibility("default")))

namespace lanescope::compression {

// ---- Errors -------------------------------------------------------------------------------------

enum class ErrorCode {
  bad_input,  ///< What was given cannot be: types, sizes, places, settings.
  damaged,    ///< A stream or an array is not what was compressed.
  too_late,   ///< A transfer has not ended in time.
  no_memory,  ///< Of the host or of a GPU.
  cuda,       ///< CUDA failed, or there is no GPU.
};

/// `what()` is one sentence.
class LANESCOPE_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, int cuda_code, const std::string& sentence)
      : std::runtime_error(sentence), code_(code), cuda_code_(cuda_code) {}

  ErrorCode code() const noexcept { return code_; }

  /// The `cudaError_t` of the call that failed; 0 where it was none.
  int cuda_code() const noexcept { return cuda_code_; }

 private:
  ErrorCode code_;
  int cuda_code_;
};

// ---- Streams ------------------------------------------------------------------------------------

/// Bytes of one value.
LANESCOPE_API std::size_t value_bytes(Dtype dtype);

struct Options {
  Dtype dtype = Dtype::bytes;
  std::optional<Codec> codec{};        ///< None: the one that makes some of the array smallest.
  int dimensionality = 1;              ///< With GFC: how many values back is predicted from, to 32.
  std::vector<std::uint64_t> shape{};  ///< Up to 16 sides; empty: one dimension.
  int threads = 0;                     ///< On the host; 0: as many as CPUs, 16 at most.
  int sms = 0;                         ///< On a GPU: how many SMs; 0: all.

  /// Makes an update: differences to these values, which whoever reads the stream has to have, too;
  /// of the type and the size of the array, where that lies. An empty array has an empty base.
  std::optional<std::span<const std::byte>> base{};
};

/// What a stream says of itself.
struct StreamInfo {
  Codec codec;
  Dtype dtype;
  int dimensionality;
  std::vector<std::uint64_t> shape;
  std::size_t bytes;                     ///< Of the array.
  std::size_t stored_bytes;              ///< Of the stream.
  UpdateKind update = UpdateKind::none;  ///< Another one: the stream needs its base.
  std::uint64_t base_checksum = 0;       ///< Of that base.
};

/// Most bytes of the stream of an array. An update takes one dimension more.
LANESCOPE_API std::size_t most_bytes(std::size_t array_bytes, std::size_t dimensions = 1);

/// Compresses an array in the host's memory; returns its stream.
LANESCOPE_API std::vector<std::byte> compress(std::span<const std::byte> array,
                                              const Options& options = {});

/// The same into memory with room for `most_bytes`, apart from the array; returns how many bytes
/// the stream has.
LANESCOPE_API std::size_t compress_into(std::span<const std::byte> array, std::span<std::byte> out,
                                        const Options& options = {});

/// Reads and checks what a stream says of itself, not its blocks.
LANESCOPE_API StreamInfo describe(std::span<const std::byte> stream);

/// Returns the array. A stream that was cut off or changed is refused as `damaged`, and the block
/// is named. An update takes its base, and another stream none; what does not fit is `bad_input`,
/// before anything is written.
LANESCOPE_API std::vector<std::byte> decompress(
    std::span<const std::byte> stream, int threads = 0,
    std::optional<std::span<const std::byte>> base = {});

/// The same into memory of as many bytes as the array has, apart from the stream. It may be the
/// base, which stays as it is where the stream is refused.
LANESCOPE_API void decompress_into(std::span<const std::byte> stream, std::span<std::byte> out,
                                   int threads = 0,
                                   std::optional<std::span<const std::byte>> base = {});

#ifndef LANESCOPE_HOST_ONLY

// ---- Streams in a GPU's memory ------------------------------------------------------------------
//
// Both arrays lie in the memory of one GPU, and `on` is a stream of it. What is on that is waited
// for, and all is done when the call returns. The bytes are those that the host makes.

/// `out` begins at a multiple of 16 bytes and has room for what comes, `most_bytes` at most, apart
/// from the array.
LANESCOPE_API std::size_t compress_on_gpu(std::span<const std::byte> array,
                                          std::span<std::byte> out, const Options& options,
                                          cudaStream_t on);

LANESCOPE_API StreamInfo describe_on_gpu(std::span<const std::byte> stream, cudaStream_t on);

/// `out` has as many bytes as the array. Refuses as `decompress` does. An update takes as much
/// memory again as the array, and its base in the same GPU's memory, which `out` may be.
LANESCOPE_API void decompress_on_gpu(std::span<const std::byte> stream, std::span<std::byte> out,
                                     cudaStream_t on, int sms = 0,
                                     std::optional<std::span<const std::byte>> base = {});

// ---- Who decides whether an array travels compressed --------------------------------------------

/// An array that is about to cross a link.
struct Transfer {
  std::string tag;   ///< What the caller calls arrays of its kind.
  std::string path;  ///< "g0>g1", "g0>host".
  Dtype dtype;
  std::size_t bytes;
};

struct Decision {
  bool compress;
  std::optional<Codec> codec;  ///< None: the channel looks at the first array of each tag and type.
  int dimensionality = 1;
  std::string reason{};  ///< One line.

  /// What it would take either way, as predicted; none where nothing is known.
  std::optional<double> raw_seconds{}, compressed_seconds{};
};

/// What became of a transfer.
struct Outcome {
  double seconds;          ///< From its first to its last step on the devices, by their clock; of
                           ///< what it shared with another transfer the half.
  std::size_t bytes;       ///< Of the array.
  std::size_t wire_bytes;  ///< What crossed the link.
  bool compressed;         ///< What shall be compressed may have to travel as it is.
};

/// What some blocks of an array become by a codec.
struct Sampled {
  Codec codec;
  int dimensionality;
  double wire_share;  ///< Their bytes on the link over those of the array.
};

/// Decides for each transfer. Called by all threads that use its channels.
class LANESCOPE_API Decider {
 public:
  virtual ~Decider();
  virtual Decision decide(const Transfer& transfer) = 0;

  /// Whether the channel shall look at some blocks of an array about which `decide` is called
  /// next. The default never does.
  virtual bool wants_sample(const Transfer& transfer);

  /// Takes in what these blocks become by each codec: later, as nothing waits for them; none where
  /// they could not be had.
  virtual void take_sample(const Transfer& transfer, std::span<const Sampled> sampled);

  /// Told of sends and offloads that came in whole, in the order in which they end, when the
  /// channel is used the next time.
  virtual void learn(const Transfer& transfer, const Decision& decision, const Outcome& outcome);
};

/// Compresses everything, or nothing.
class LANESCOPE_API Always final : public Decider {
 public:
  explicit Always(bool compress) : compress_(compress) {}
  Decision decide(const Transfer& transfer) override;

 private:
  bool compress_;
};

/// Copies of B bytes over a link take `first_seconds + B / (gbs * 1e9)` seconds.
struct LinkCost {
  double gbs;
  double first_seconds = 0;
};

/// What a codec costs: GB/s of the array on each side, seconds until its kernels run, and bytes of
/// the array that are coded before the whole pipeline is at work. The defaults are what kernels may
/// reach at best on a whole GPU.
struct CodecCost {
  double compress_gbs = 1000, decompress_gbs = 1500, start_seconds = 20e-6;
  std::size_t slab_bytes = 8 << 20;
};

/// Compresses where that is predicted to take less than 0.95 of the time, from what transfers of
/// the same type and path took before, those of the same tag first; turns itself off where it is
/// slower. Holds a bounded number of tags, those used last. Python's rule is the same code
/// (docs/compression-rule.md).
class LANESCOPE_API Rule final : public Decider {
 public:
  /// For channels that code so much before their whole pipeline is at work: 20 MiB between GPUs,
  /// 8 MiB with the host. With a codec it is the only one, else those that suit the type.
  explicit Rule(std::size_t fill_bytes = 8 << 20, std::optional<Codec> codec = {});

  /// With another cost of codecs at best: what they cost in fact is learnt from transfers.
  explicit Rule(const CodecCost& at_best, std::optional<Codec> codec = {});
  ~Rule() override;

  /// Says what a path costs before anything has crossed it. Transfers over others go as they are
  /// until two of their size, within a factor of two, have been timed.
  void set_link(const std::string& path, const LinkCost& link);
  Decision decide(const Transfer& transfer) override;
  bool wants_sample(const Transfer& transfer) override;
  void take_sample(const Transfer& transfer, std::span<const Sampled> sampled) override;
  void learn(const Transfer& transfer, const Decision& decision, const Outcome& outcome) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---- Channels -----------------------------------------------------------------------------------
//
// Nothing waits on the host, but for a restore, which waits for the end of its offload. A transfer
// comes behind what is on the streams that are given, and what is put on them later comes behind
// it. Arrays come out bit by bit as they went in; one that does not is an error of `Ticket::wait`,
// or else of the channel's next call. One that does not begin at a multiple of 16 bytes, or for
// which a GPU has no memory left, travels as it is.

inline constexpr double kPatienceSeconds = 30;

/// A transfer; copies are of the same one.
class LANESCOPE_API Ticket {
 public:
  struct State;
  explicit Ticket(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// Whether it has ended, well or not.
  bool done() const;

  /// Returns what became of it, when it has ended.
  Outcome wait(double patience_seconds = kPatienceSeconds) const;

  const Transfer& transfer() const noexcept;

  /// With the codec that was taken.
  const Decision& decision() const noexcept;

  /// Why it travels as it is although it was to be compressed; empty otherwise.
  std::string why_raw() const;

 private:
  std::shared_ptr<State> state_;
};

struct ChannelOptions {
  std::shared_ptr<Decider> decider{};       ///< None: a `Rule`.
  std::optional<Codec> codec{};             ///< For all arrays; none: as decided.
  std::optional<std::size_t> slab_bytes{};  ///< Of the array, that one kernel codes: a multiple of
                                            ///< 64 KiB. None: 128 MiB between GPUs, 32 MiB between
                                            ///< them over the host, 16 MiB to the host.
  std::optional<int> slots{};  ///< Slabs that the receiving side has room for. None: 2, with the
                               ///< host 4.
  std::optional<int> sms{};    ///< Of each GPU at most; none or 0: as many as fill the link to
                               ///< encode, and to decode what comes from another GPU all.
  bool over_host = false;  ///< Between GPUs: by pinned memory of the host, as those need that do
                           ///< not reach each other's memory.
  double patience_seconds = kPatienceSeconds;  ///< How long its end waits for what is under way,
                                               ///< and a GPU for a block of another one's.
};

/// A way from one GPU to another, or to itself.
class LANESCOPE_API GpuChannel {
 public:
  /// Refuses where there is no such GPU, or the two do not reach each other's memory.
  GpuChannel(int from, int to, const ChannelOptions& options = {});

  /// Waits for what is under way; what has not ended then keeps its memory.
  ~GpuChannel();
  GpuChannel(GpuChannel&&) noexcept;
  GpuChannel& operator=(GpuChannel&&) noexcept;

  /// Sends an array to one of as many bytes on the other GPU, or elsewhere on the same one. Each
  /// stream is one of its GPU.
  ///
  /// With a base, an array of as many bytes on the source's GPU of which the target holds the same,
  /// the differences travel where that pays, and are put onto the target. A target that holds
  /// others stays as it is, and that is an error of `Ticket::wait`, `damaged`. Takes two slabs more
  /// on each GPU; deciders are told of a path that begins with "update ".
  Ticket send(std::span<const std::byte> source, std::span<std::byte> target, Dtype dtype,
              cudaStream_t source_stream, cudaStream_t target_stream, std::string_view tag = {},
              std::optional<std::span<const std::byte>> base = {});

  /// Waits for all that is under way, and throws the first error of which nobody was told.
  void synchronize(double patience_seconds = kPatienceSeconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// An array in pinned memory of the host, compressed or not; freed with its last copy.
class LANESCOPE_API Parcel {
 public:
  struct State;
  explicit Parcel(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// Of the array.
  std::size_t bytes() const noexcept;
  Dtype dtype() const noexcept;

  /// Of what is stored. Waits for the end of the offload.
  std::size_t stored_bytes() const;

  /// The stream that it is, of one dimension, for `decompress` anywhere and `HostChannel::load`.
  /// Waits for the end of the offload.
  std::vector<std::byte> stream() const;

  /// Gives the pinned memory back to the channel, of all copies: at once, or when what is under way
  /// ends. It cannot be restored afterwards.
  void evict();

 private:
  friend class HostChannel;
  std::shared_ptr<State> state_;
};

/// How compressed arrays come back.
enum class RestoreBy {
  staged,  ///< The copy engine brings slabs to the GPU, and kernels decode them there.
  mapped,  ///< Kernels read the host's memory themselves.
};

/// A way from a GPU to the host's memory and back.
class LANESCOPE_API HostChannel {
 public:
  explicit HostChannel(int gpu, const ChannelOptions& options = {},
                       RestoreBy restore_by = RestoreBy::staged);

  /// As that of `GpuChannel`. Parcels stay.
  ~HostChannel();
  HostChannel(HostChannel&&) noexcept;
  HostChannel& operator=(HostChannel&&) noexcept;

  struct Offload {
    Parcel parcel;
    Ticket ticket;
  };

  /// Takes an array to the host. It may be overwritten by what is put on the stream later. With a
  /// base, an array of as many bytes on the same GPU, the parcel holds differences where that pays.
  /// Takes four slabs of the GPU's memory.
  Offload offload(std::span<const std::byte> source, Dtype dtype, cudaStream_t stream,
                  std::string_view tag = {}, std::optional<std::span<const std::byte>> base = {});

  /// Brings an array back, as often as wanted; another channel's, too. `target` has as many bytes,
  /// and begins at a multiple of 16. What was offloaded with a base takes one that holds the same,
  /// which may be the target; where it holds others the target stays as it is, and that is an error
  /// of `Ticket::wait`, `damaged`.
  Ticket restore(const Parcel& parcel, std::span<std::byte> target, cudaStream_t stream,
                 std::optional<std::span<const std::byte>> base = {});

  /// Takes many arrays of one GPU to the host as one: a kernel puts them side by side, in memory of
  /// the GPU that the stream's order frees, each at the next multiple of 16 bytes. Only the first
  /// is looked at for where it lies.
  Offload offload_many(std::span<const std::span<const std::byte>> pages, Dtype dtype,
                       cudaStream_t stream, std::string_view tag = {});

  /// Brings them back, in the same order, each to a place of as many bytes.
  Ticket restore_many(const Parcel& parcel, std::span<const std::span<std::byte>> pages,
                      cudaStream_t stream);

  /// Brings a stream into pinned memory, as `Parcel::stream` or `compress` made it. Its blocks are
  /// compared with their checksums when it is restored.
  Parcel load(std::span<const std::byte> stream);

  /// Gives pinned memory that no parcel uses back to the system, as far as `keep_bytes` free bytes
  /// stay, in the pieces in which it was pinned; returns how many bytes went.
  std::size_t trim(std::size_t keep_bytes = 0);

  /// Pins the host's memory for arrays of so many bytes now, which takes longer than copying.
  void prepare(std::size_t bytes);

  /// Memory of the host that the channel has pinned, taken or not.
  std::size_t pinned_bytes() const;

  /// As that of `GpuChannel`.
  void synchronize(double patience_seconds = kPatienceSeconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

#endif  // LANESCOPE_HOST_ONLY

}  // namespace lanescope::compression
