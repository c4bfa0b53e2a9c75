#include "inject/encoder.hpp"

#include <algorithm>

namespace lanescope::inject {

namespace {

constexpr std::uint32_t kFirstWithCopyCounts = 130000;

template <class Record>
const Record& as(const CUpti_Activity& record) {
  return reinterpret_cast<const Record&>(record);
}

template <class Record>
Operation begun(What what, const Record& record) {
  Operation operation{};
  operation.what = what;
  operation.start_ns = record.start;
  operation.end_ns = record.end;
  operation.device = operation.source_device = operation.destination_device = record.deviceId;
  operation.context = record.contextId;
  operation.stream = record.streamId;
  operation.correlation = record.correlationId;
  operation.count = 1;
  return operation;
}

bool from_host(std::uint8_t copy_kind) {
  return copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ||
         copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOA ||
         copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
}

bool to_host(std::uint8_t copy_kind) {
  return copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ||
         copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_ATOH ||
         copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
}

template <class Record>
Operation begun_copy(const Record& copy) {
  Operation operation = begun(What::copy, copy);
  operation.bytes = copy.bytes;
  operation.copy_kind = copy.copyKind;
  operation.source_kind = copy.srcKind;
  operation.destination_kind = copy.dstKind;
  operation.asynchronous = (copy.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0;
  return operation;
}

}  // namespace

void Encoder::add(const CUpti_Activity& record, std::uint32_t cupti_version) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return add_copy(as<CUpti_ActivityMemcpy6>(record), cupti_version >= kFirstWithCopyCounts);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return add_peer_copy(as<CUpti_ActivityMemcpyPtoP4>(record));
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return add_memset(as<CUpti_ActivityMemset4>(record));
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return add_kernel(as<CUpti_ActivityKernel10>(record));
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      return add_migration(as<CUpti_ActivityUnifiedMemoryCounter3>(record));
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return add_call(as<CUpti_ActivityAPI>(record), record.kind == CUPTI_ACTIVITY_KIND_RUNTIME);
    default:
      return;
  }
}

void Encoder::add_copy(const CUpti_ActivityMemcpy6& copy, bool has_count) {
  Operation operation = begun_copy(copy);
  if (from_host(copy.copyKind)) operation.source_device = kHost;
  if (to_host(copy.copyKind)) operation.destination_device = kHost;
  // The last member of the record: libraries of CUDA 12 do not write it.
  if (has_count && copy.copyCount > 0)
    operation.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(copy.copyCount, kHost));
  add_operation(operation);
}

void Encoder::add_peer_copy(const CUpti_ActivityMemcpyPtoP4& copy) {
  Operation operation = begun_copy(copy);
  operation.source_device = copy.srcDeviceId;
  operation.destination_device = copy.dstDeviceId;
  add_operation(operation);
}

void Encoder::add_memset(const CUpti_ActivityMemset4& set) {
  Operation operation = begun(What::memset, set);
  operation.bytes = set.bytes;
  operation.destination_kind = static_cast<std::uint8_t>(set.memoryKind);
  operation.asynchronous = (set.flags & CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC) != 0;
  add_operation(operation);
}

void Encoder::add_kernel(const CUpti_ActivityKernel10& kernel) {
  Operation operation = begun(What::kernel, kernel);
  operation.asynchronous = 1;
  if (kernel.name != nullptr) operation.name = string_id(kernel.name);
  add_operation(operation);
}

void Encoder::add_migration(const CUpti_ActivityUnifiedMemoryCounter3& counter) {
  const auto kind = counter.counterKind;
  const bool down = kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
  const bool faulted = kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT;
  const Managed allocation{.head = {RecordKind::managed, 0, sizeof(Managed)},
                           .start_ns = counter.start,
                           .end_ns = counter.end,
                           .value = faulted ? 1 : counter.value,  // there it is the instruction
                           .address = counter.address,
                           .kind = static_cast<std::uint32_t>(kind),
                           .device = faulted ? kHost
                                     : down  ? counter.dstId
                                             : counter.srcId};
  buffer_.add(allocation);
  Operation operation{};
  if (kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD)
    operation.copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  else if (kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH)
    operation.copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  else if (kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD)
    operation.copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  else
    return;  // faults move nothing
  operation.what = What::migration;
  operation.start_ns = counter.start;
  operation.end_ns = counter.end;
  operation.bytes = counter.value;
  operation.source_kind = operation.destination_kind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
  operation.source_device = counter.srcId;
  operation.destination_device = counter.dstId;
  operation.device = to_host(operation.copy_kind) ? counter.srcId : counter.dstId;
  operation.asynchronous = 1;
  operation.count = 1;
  add_operation(operation);
}

void Encoder::add_call(const CUpti_ActivityAPI& call, bool runtime) {
  const auto key = static_cast<std::uint64_t>(call.cbid) << 1 | (runtime ? 1 : 0);
  auto known = call_names_.find(key);
  if (known == call_names_.end())
    known = call_names_.emplace(key, string_id(call_name_(runtime, call.cbid))).first;
  const Call written{.head = {RecordKind::call, 0, sizeof(Call)},
                     .start_ns = call.start,
                     .end_ns = call.end,
                     .correlation = call.correlationId,
                     .thread = call.threadId,
                     .name = known->second,
                     .result = call.returnValue};
  buffer_.add(written);
}

void Encoder::add_operation(Operation& operation) {
  const bool unknown = operation.start_ns == 0 || operation.end_ns == 0;
  if (unknown) operation.start_ns = operation.end_ns = 0;
  operation.head = {RecordKind::operation, unknown ? kTimesUnknown : std::uint16_t{0},
                    sizeof(Operation)};
  buffer_.add(operation);
}

void Encoder::add(const Edge& edge) {
  const auto number = [this](const std::string* text) {
    return text == nullptr ? 0 : string_id(*text);
  };
  const RangeEdge written{.head = {RecordKind::range, 0, sizeof(RangeEdge)},
                          .at_ns = edge.at_ns,
                          .id = edge.id,
                          .thread = edge.thread,
                          .name = number(edge.name),
                          .domain = number(edge.domain),
                          .kind = edge.kind};
  buffer_.add(written);
}

void Encoder::add_loss(std::uint64_t at_ns, std::uint64_t records, std::uint16_t flags) {
  buffer_.add(Count{{RecordKind::loss, flags, sizeof(Count)}, at_ns, records});
}

void Encoder::add_note(std::string_view text) {
  buffer_.add_text(RecordKind::note, 0, text);
}

void Encoder::add_gpu(std::uint32_t number, std::string_view address) {
  buffer_.add_text(RecordKind::gpu, number, address);
}

void Encoder::add_end(std::uint64_t at_ns, std::uint64_t records, std::uint16_t flags) {
  buffer_.add(Count{{RecordKind::end, flags, sizeof(Count)}, at_ns, records});
}

std::uint32_t Encoder::string_id(std::string_view text) {
  if (text.empty()) return 0;
  const auto [entry, is_new] = strings_.emplace(text, last_id_ + 1);
  if (is_new) buffer_.add_text(RecordKind::string, ++last_id_, text);
  return entry->second;
}

void Encoder::forget_names() noexcept {
  strings_.clear();
  call_names_.clear();
}

}  // namespace lanescope::inject
