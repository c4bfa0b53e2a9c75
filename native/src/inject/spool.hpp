#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "inject/cupti_library.hpp"
#include "inject/encoder.hpp"
#include "inject/spool_file.hpp"
#include "watch/spool_room.hpp"

namespace lanescope::inject {

/// This process's spool: whole buffers of records in, one write for each. Several threads may
/// use it at once. Nothing here throws; what cannot be kept is counted, and reported in the spool
/// as soon as it can be written to again.
class Spool {
 public:
  /// @param cupti outlives the spool; its version is read when the first buffer comes.
  explicit Spool(const Cupti& cupti) : cupti_(cupti) {}

  /// Create the file and write its first line.
  /// @return false if there can be no spool.
  bool open(const std::string& folder, const std::string& header) noexcept;

  /// Tell the reader one sentence.
  void note(std::string_view text) noexcept;

  /// Tell the reader which GPUs the process's numbers stand for.
  void add_gpus(const std::vector<std::string>& addresses) noexcept;

  /// Write what a buffer of `size` bytes holds, and that CUPTI dropped `dropped` records.
  void add(std::uint8_t* buffer, std::size_t size, std::uint64_t dropped) noexcept;

  /// Write begins and ends of ranges, and that `lost` more were not kept.
  void add(const std::vector<Edge>& edges, std::uint64_t lost) noexcept;

  /// Write what calls were passed, and that `lost` more were not kept.
  void add(const std::vector<HostCopy>& copies, std::uint64_t lost) noexcept;

  /// @return whether nobody reads any more, so that nothing is written any more.
  bool is_over() noexcept;

  /// Write that the process ended by itself.
  /// `flags`: of the end.
  void end(std::uint16_t flags = 0) noexcept;

 private:
  std::string call_name(bool runtime, CUpti_CallbackId id) const;
  void encode(std::uint8_t* buffer, std::size_t size);
  template <class Record>
  void add_all(const std::vector<Record>& records, std::uint64_t lost) noexcept;
  struct LeftOut;
  LeftOut* finer_kind(const CUpti_Activity& record) noexcept;
  void leave_out_what_has_no_room() noexcept;
  void forget_what_is_not_written() noexcept;
  void write_out() noexcept;

  const Cupti& cupti_;
  std::mutex mutex_;
  SpoolFile file_;
  Encoder encoder_{[this](bool runtime, CUpti_CallbackId id) { return call_name(runtime, id); }};
  std::uint64_t written_ = 0;
  std::uint64_t lost_ = 0;
  watch::SpoolRoom room_;
  watch::Fineness allowed_ = watch::Fineness::all;
  /// Records for which there was no room.
  struct LeftOut {
    std::uint16_t flags;
    watch::Fineness from = watch::Fineness::nothing;  ///< Where such records are left out.
    std::uint64_t unreported = 0;
    std::uint64_t reported = 0;
    std::uint64_t encoded = 0;  ///< And not written yet.
  };
  LeftOut kernels_{kNoRoom | kLostKernels, watch::Fineness::no_kernels};
  LeftOut calls_{kNoRoom | kLostCalls, watch::Fineness::operations_only};
  LeftOut others_{kNoRoom};
  bool ended_ = false;
  int error_ = 0;  ///< errno of the write that failed, until one succeeds
};

}  // namespace lanescope::inject
