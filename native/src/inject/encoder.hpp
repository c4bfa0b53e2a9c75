#pragma once

#include <cupti.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "inject/range_log.hpp"
#include "inject/record_buffer.hpp"
#include "inject/spool_format.hpp"

namespace lanescope::inject {

/// Turns CUPTI's records into records of a spool. Calls nothing of CUPTI.
class Encoder {
 public:
  /// Name of a call of the driver's (`runtime` false) or the runtime's interface.
  using CallName = std::function<std::string(bool runtime, CUpti_CallbackId)>;

  explicit Encoder(CallName call_name) : call_name_(std::move(call_name)) {}

  /// Append a record; kinds that the spool does not know are left out.
  /// @param cupti_version of the library that wrote it: older ones have shorter records.
  void add(const CUpti_Activity& record, std::uint32_t cupti_version);
  void add(const Edge& edge);
  void add(const HostCopy& copy) { buffer_.add(copy); }
  void add_loss(std::uint64_t at_ns, std::uint64_t records, std::uint16_t flags = 0);
  void add_note(std::string_view text);
  void add_gpu(std::uint32_t number, std::string_view address);
  /// Append the end of the spool.
  /// @param records operations and calls written.
  void add_end(std::uint64_t at_ns, std::uint64_t records, std::uint16_t flags = 0);

  /// What was appended, to be written and cleared.
  RecordBuffer& written() noexcept { return buffer_; }

  /// Make the names be written again: what was appended could not be kept, and they with it.
  void forget_names() noexcept;

 private:
  void add_copy(const CUpti_ActivityMemcpy6& copy, bool has_count);
  void add_peer_copy(const CUpti_ActivityMemcpyPtoP4& copy);
  void add_memset(const CUpti_ActivityMemset4& set);
  void add_kernel(const CUpti_ActivityKernel10& kernel);
  void add_migration(const CUpti_ActivityUnifiedMemoryCounter3& counter);
  void add_call(const CUpti_ActivityAPI& call, bool runtime);
  void add_operation(Operation& operation);
  std::uint32_t string_id(std::string_view text);

  CallName call_name_;
  std::unordered_map<std::string, std::uint32_t> strings_;
  std::unordered_map<std::uint64_t, std::uint32_t> call_names_;
  RecordBuffer buffer_;
  std::uint32_t last_id_ = 0;  // never given twice, so that a name is one in the whole file
};

}  // namespace lanescope::inject
