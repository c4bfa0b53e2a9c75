#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "compress/channel.hpp"
#include "compress/page_parts.hpp"
#include "compress/parcel.hpp"
#include "compress/pinned_arena.hpp"

namespace lanescope::compress {

/// How compressed arrays come back.
enum class RestoreBy {
  mapped,  ///< Kernels read the host's memory themselves.
  staged,  ///< The copy engine brings slabs into the device's memory, and kernels read them there.
};

struct HostChannelOptions {
  ChannelOptions channel = kToHost;     ///< Slabs and slots are those of staged restores.
  std::size_t piece_bytes = 256 << 20;  ///< By which the pinned memory grows.
  RestoreBy restore_by = RestoreBy::staged;
};

/// When the caller's stream waits for the end of a transfer.
enum class Join {
  now,    ///< Whatever comes later on it does.
  later,  ///< Not before `join`: until then the caller leaves the device's memory of it alone.
};

/// Slabs of an array that one kernel codes of an update, of which little crosses the link.
inline constexpr std::size_t kUpdateSlabs = 2;

/// Brings arrays from a GPU into pinned memory of the host and back. Kernels write payloads and
/// entries straight into that memory, so that only what is left of an array crosses the link. What
/// the host itself is to read is not compressed. Order and threads as with `DeviceChannel`.
class HostChannel {
 public:
  /// Throws `Error` if there is no such device.
  HostChannel(int gpu, const HostChannelOptions& options);

  /// As that of `DeviceChannel`.
  ~HostChannel();
  HostChannel(const HostChannel&) = delete;
  HostChannel& operator=(const HostChannel&) = delete;

  struct Offload {
    std::shared_ptr<Parcel> parcel;
    std::shared_ptr<Ticket> ticket;
  };

  /// Without a choice the array is stored as it is, and also where it is not aligned to 16 bytes.
  /// Throws `Error`. An update, by its choice, stores differences to `base`, in the same memory;
  /// that takes twice `kUpdateSlabs` slabs of it.
  Offload offload(const std::byte* source, std::size_t bytes, const std::optional<Choice>& choice,
                  cudaStream_t source_stream, const std::byte* base = nullptr,
                  Join join = Join::now);

  /// Takes pages away as one array, in which each is filled up with zeros to a multiple of 16
  /// bytes. A kernel reads them where they lie. With a choice they are whole blocks, aligned to 16
  /// bytes. Order as with `offload`. Throws `Error`.
  Offload offload_pages(std::span<const Page> pages, const std::optional<Choice>& choice,
                        cudaStream_t source_stream, Join join = Join::now);

  /// Brings back an array, which this or another channel took away; `target` is aligned to 16
  /// bytes. Waits on the host for the end of its offload, if that is still under way. Is mapped
  /// where the device has no memory for slots. Throws `Error`. An update is put onto a base, which
  /// holds the same bytes as the one that it was made against and may be the target; where it holds
  /// others the target stays as it is, which the ticket tells.
  std::shared_ptr<Ticket> restore(const std::shared_ptr<Parcel>& parcel, std::byte* target,
                                  cudaStream_t target_stream, const std::byte* base = nullptr,
                                  Join join = Join::now);

  /// Lets a stream of the device wait for the end of a transfer. Throws `Error`.
  void join(Ticket& ticket, cudaStream_t stream);

  /// Brings back parts of an array that is stored as it is, each to a place of its own; sources
  /// are bytes of the array. Order as with `restore`; only those bytes cross the link. Throws
  /// `Error`.
  std::shared_ptr<Ticket> restore_parts(const std::shared_ptr<Parcel>& parcel,
                                        std::span<const ParcelPart> parts,
                                        cudaStream_t target_stream);

  /// Brings back some blocks of an array that is stored compressed, one behind another to
  /// `target`, which is aligned to 16 bytes. As `restore_parts` otherwise.
  std::shared_ptr<Ticket> restore_blocks(const std::shared_ptr<Parcel>& parcel,
                                         std::span<const std::uint32_t> blocks, std::byte* target,
                                         cudaStream_t target_stream);

  /// Pins memory for a stream, of which the front is there; its payloads are put into the parcel's
  /// `payload_room`. Throws `Error`.
  std::shared_ptr<Parcel> load(std::span<const std::byte> front, std::size_t stream_bytes);

  /// Gives free pinned memory back to the system, as far as `keep_bytes` free bytes stay; returns
  /// how many bytes went.
  std::size_t trim(std::size_t keep_bytes);

  /// Pins memory beforehand for arrays of so many bytes. Throws `Error`.
  void prepare(std::size_t bytes);

  /// As that of `DeviceChannel`.
  void load(const Choice& choice);

  const PinnedArena& arena() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lanescope::compress
