#include "cuda/nccl.hpp"

#include <array>
#include <cstring>

#include "cuda/gate.hpp"
#include "cuda/kernels.hpp"

namespace lanescope {

namespace {

// NCCL's interface as far as it is used here. It is opened at run time: a machine without it has
// everything else all the same. Numbers and types are those of its version 2.
constexpr int kNcclSuccess = 0, kSum = 0;
enum Type : int { kBytes = 1, kWords = 3 };

constexpr std::uint64_t kSumSeed = 0xA11;
constexpr std::uint64_t kUnreceivedSeed = 0xBAD0000;
constexpr double kNcclTimeoutS = 50;  // below what the process that waits for an answer allows

constexpr std::size_t kAligned = 8;  // of patterns

}  // namespace

struct NcclRank::Calls {
  struct UniqueId {
    std::array<char, 128> bytes;
  };

  explicit Calls(const std::string& path) : library(path, "no nccl") {
    const auto find = [&]<typename Function>(Function& function, const char* name) {
      function = library.function<Function>(name);
    };
    find(get_version, "ncclGetVersion");
    find(get_unique_id, "ncclGetUniqueId");
    find(init_rank, "ncclCommInitRank");
    find(abort, "ncclCommAbort");
    find(group_start, "ncclGroupStart");
    find(group_end, "ncclGroupEnd");
    find(send, "ncclSend");
    find(receive, "ncclRecv");
    find(all_reduce, "ncclAllReduce");
    find(error_string, "ncclGetErrorString");
    find(last_error, "ncclGetLastError");
  }

  void require(int status, const char* call, void* communicator) const {
    if (status == kNcclSuccess) return;
    const char* why = last_error(communicator);
    std::string words = error_string(status);
    if (why != nullptr && *why != '\0') words += std::string(": ") + why;
    throw Error(call, status, "NCCL failed", words);
  }

  watch::Library library;
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(void**, int, UniqueId, int) = nullptr;
  int (*abort)(void*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*receive)(void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  const char* (*error_string)(int) = nullptr;
  const char* (*last_error)(void*) = nullptr;
};

std::string NcclRank::unique_id(const std::string& library) {
  const Calls calls(library);
  Calls::UniqueId id{};
  calls.require(calls.get_unique_id(&id), "ncclGetUniqueId", nullptr);
  return {id.bytes.data(), id.bytes.size()};
}

NcclRank::NcclRank(const std::string& library, const std::string& id, int ranks, int rank,
                   int device)
    : calls_(std::make_unique<Calls>(library)), device_(device), rank_(rank), ranks_(ranks) {
  Calls::UniqueId its_id{};
  if (id.size() != its_id.bytes.size())
    throw Error("NcclRank", 0, "NCCL failed", "the communicator's id has another size");
  std::memcpy(its_id.bytes.data(), id.data(), id.size());
  const ScopedDevice scope(device);
  require(calls_->get_version(&version_), "ncclGetVersion");
  require(calls_->init_rank(&communicator_, ranks, its_id, rank), "ncclCommInitRank");
}

NcclRank::~NcclRank() {
  // Not ncclCommDestroy, which waits for ranks that may be gone.
  if (communicator_ != nullptr) static_cast<void>(calls_->abort(communicator_));
}

void NcclRank::require(int status, const char* call) const {
  calls_->require(status, call, communicator_);
}

void NcclRank::begin_group() const {
  require(calls_->group_start(), "ncclGroupStart");
}

void NcclRank::end_group() const {
  require(calls_->group_end(), "ncclGroupEnd");
}

void NcclRank::send(const void* data, std::size_t bytes, int to, cudaStream_t stream) const {
  require(calls_->send(data, bytes, kBytes, to, communicator_, stream), "ncclSend");
}

void NcclRank::receive(void* data, std::size_t bytes, int from, cudaStream_t stream) const {
  require(calls_->receive(data, bytes, kBytes, from, communicator_, stream), "ncclRecv");
}

void NcclRank::all_reduce(const void* data, void* sum, std::size_t bytes,
                          cudaStream_t stream) const {
  constexpr std::size_t word = sizeof(std::uint32_t);
  const bool by_words = bytes % word == 0;
  require(calls_->all_reduce(data, sum, by_words ? bytes / word : bytes, by_words ? kWords : kBytes,
                             kSum, communicator_, stream),
          "ncclAllReduce");
}

NcclOperations::NcclOperations(std::shared_ptr<const NcclRank> rank,
                               const std::vector<NcclTransfer>& sends,
                               const std::vector<NcclTransfer>& receives, std::size_t reduced_bytes)
    : rank_(std::move(rank)), reduced_bytes_(reduced_bytes), stream_(rank_->device()) {
  const ScopedDevice scope(rank_->device());
  for (const NcclTransfer& one : sends) {
    sends_.push_back({one, DeviceMemory(rank_->device(), one.bytes)});
    fill(sends_.back().memory.data(), one.bytes, one.seed);
  }
  for (const NcclTransfer& one : receives) {
    receives_.push_back({one, DeviceMemory(rank_->device(), one.bytes)});
    fill(receives_.back().memory.data(), one.bytes, kUnreceivedSeed);
  }
  if (reduced_bytes_ > 0) {
    for (int i = 0; i < 2; ++i) reduced_.emplace_back(rank_->device(), reduced_bytes_);
    auto* own = static_cast<std::byte*>(reduced_[0].data());
    check(cudaMemsetAsync(own, 0, reduced_bytes_, stream_.get()), "cudaMemsetAsync");
    const std::size_t begin = part_begin(rank_->rank()), end = part_begin(rank_->rank() + 1);
    if (begin < end) fill(own + begin, end - begin, kSumSeed);
    fill(reduced_[1].data(), reduced_bytes_, kUnreceivedSeed);
  }
  wait_for(stream_, kNcclTimeoutS);
}

void NcclOperations::fill(void* data, std::size_t bytes, std::uint64_t seed) const {
  launch_fill(stream_.get(), data, bytes, seed);
}

/// Where the part of a rank begins in what is summed; the last one has what is left over.
std::size_t NcclOperations::part_begin(int part) const {
  if (part == rank_->ranks()) return reduced_bytes_;
  const auto parts = static_cast<std::size_t>(rank_->ranks());
  return reduced_bytes_ / parts / kAligned * kAligned * static_cast<std::size_t>(part);
}

void NcclOperations::queue() const {
  const cudaStream_t stream = stream_.get();
  rank_->begin_group();
  for (const Array& one : sends_)
    rank_->send(one.memory.data(), one.transfer.bytes, one.transfer.peer, stream);
  for (const Array& one : receives_)
    rank_->receive(one.memory.data(), one.transfer.bytes, one.transfer.peer, stream);
  rank_->end_group();
  if (reduced_bytes_ > 0)
    rank_->all_reduce(reduced_[0].data(), reduced_[1].data(), reduced_bytes_, stream);
}

std::vector<double> NcclOperations::run(int windows, int loops) {
  const ScopedDevice scope(rank_->device());
  const auto boundaries = static_cast<std::size_t>(windows) + 2;
  while (events_.size() < boundaries) events_.emplace_back();
  for (std::size_t boundary = 0; boundary < boundaries; ++boundary) {
    for (int i = 0; boundary > 0 && i < loops; ++i) queue();
    check(cudaEventRecord(events_[boundary].get(), stream_.get()), "cudaEventRecord");
  }
  wait_for(stream_, kNcclTimeoutS);
  std::vector<double> seconds;
  for (std::size_t boundary = 1; boundary < boundaries; ++boundary)
    seconds.push_back(events_[boundary].seconds_since(events_[0]));
  return seconds;
}

std::size_t NcclOperations::count_mismatches() const {
  const ScopedDevice scope(rank_->device());
  const DeviceMemory counter(rank_->device(), sizeof(unsigned long long));
  auto* wrong = static_cast<unsigned long long*>(counter.data());
  check(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream_.get()), "cudaMemsetAsync");
  for (const Array& one : receives_)
    launch_check(stream_.get(), one.memory.data(), one.transfer.bytes, one.transfer.seed, wrong);
  for (int part = 0; reduced_bytes_ > 0 && part < rank_->ranks(); ++part) {
    const std::size_t begin = part_begin(part), end = part_begin(part + 1);
    const auto* sum = static_cast<const std::byte*>(reduced_[1].data());
    if (begin < end) launch_check(stream_.get(), sum + begin, end - begin, kSumSeed, wrong);
  }
  wait_for(stream_, kNcclTimeoutS);
  unsigned long long found = 0;
  check(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return found;
}

}  // namespace lanescope
