#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/cuda_handles.hpp"
#include "watch/library.hpp"

namespace lanescope {

/// NVIDIA's NCCL, opened where it is installed, for one rank of a communicator; owner of both.
///
/// Calls block until the other ranks have made theirs. Where one never does, the process has to
/// be ended from outside.
class NcclRank {
 public:
  /// What all ranks of a communicator have to be given, by one of them. Throws `Error`.
  static std::string unique_id(const std::string& library);

  /// Joins a communicator. Throws `Error`, named "no nccl" where the library cannot be opened.
  NcclRank(const std::string& library, const std::string& id, int ranks, int rank, int device);
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  int device() const noexcept { return device_; }
  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  /// Such as 22907 for 2.29.7.
  int version() const noexcept { return version_; }

  /// Queues what is sent and received at the same time, between these. Throws `Error`.
  void begin_group() const;
  void end_group() const;
  void send(const void* data, std::size_t bytes, int to, cudaStream_t stream) const;
  void receive(void* data, std::size_t bytes, int from, cudaStream_t stream) const;
  /// Queues the sum over all ranks, by 32-bit integers where these divide the bytes.
  void all_reduce(const void* data, void* sum, std::size_t bytes, cudaStream_t stream) const;

 private:
  struct Calls;

  void require(int status, const char* call) const;

  std::unique_ptr<Calls> calls_;
  void* communicator_ = nullptr;
  int device_, rank_, ranks_, version_ = 0;
};

/// What one rank sends or receives.
struct NcclTransfer {
  int peer;
  std::size_t bytes;
  std::uint64_t seed;  ///< Of the pattern that is sent; the same at both ends.
};

/// What one rank does of an experiment, again and again, with its memory.
class NcclOperations {
 public:
  /// Allocates and fills. `reduced_bytes` are summed over all ranks: of n equal parts each rank
  /// has the pattern in one, and zeros in the others. 0 for no sum. Throws `Error`.
  NcclOperations(std::shared_ptr<const NcclRank> rank, const std::vector<NcclTransfer>& sends,
                 const std::vector<NcclTransfer>& receives, std::size_t reduced_bytes);

  /// Runs everything `loops` times in each window, after one window more, and returns the ends of
  /// all windows but the first, in seconds since that one began. Throws `Error`.
  std::vector<double> run(int windows, int loops);

  /// Number of bytes that differ from what had to arrive. Throws `Error`.
  std::size_t count_mismatches() const;

 private:
  struct Array {
    NcclTransfer transfer;
    DeviceMemory memory;
  };

  void queue() const;
  void fill(void* data, std::size_t bytes, std::uint64_t seed) const;
  std::size_t part_begin(int part) const;

  std::shared_ptr<const NcclRank> rank_;
  std::size_t reduced_bytes_;
  Stream stream_;
  std::vector<Array> sends_, receives_;
  std::vector<DeviceMemory> reduced_;  // what this rank has, and the sum
  std::vector<Event> events_;
};

}  // namespace lanescope
