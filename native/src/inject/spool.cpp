#include "inject/spool.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "inject/call_names.hpp"
#include "inject/header.hpp"

namespace lanescope::inject {

bool Spool::open(const std::string& folder, const std::string& header) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    room_ = watch::SpoolRoom(folder);
  } catch (...) {  // no memory
    return false;
  }
  return file_.open(folder, getpid()) && file_.append(header.data(), header.size()) == 0;
}

void Spool::note(std::string_view text) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    encoder_.add_note(text);
  } catch (...) {  // no memory for a sentence: the rest goes on
  }
  write_out();
}

void Spool::add_gpus(const std::vector<std::string>& addresses) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    for (std::size_t number = 0; number < addresses.size(); ++number)
      encoder_.add_gpu(static_cast<std::uint32_t>(number), addresses[number]);
  } catch (...) {  // no memory: the reader goes by CUDA_VISIBLE_DEVICES
  }
  write_out();
}

void Spool::add(std::uint8_t* buffer, std::size_t size, std::uint64_t dropped) noexcept {
  const std::lock_guard lock(mutex_);
  lost_ += dropped;
  try {
    encode(buffer, size);
  } catch (...) {
    ++lost_;  // at least one
  }
  write_out();
}

void Spool::add(const std::vector<Edge>& edges, std::uint64_t lost) noexcept {
  add_all(edges, lost);
}

void Spool::add(const std::vector<HostCopy>& copies, std::uint64_t lost) noexcept {
  add_all(copies, lost);
}

template <class Record>
void Spool::add_all(const std::vector<Record>& records, std::uint64_t lost) noexcept {
  if (records.empty() && lost == 0) return;
  const std::lock_guard lock(mutex_);
  lost_ += lost;
  std::size_t done = 0;
  try {
    for (; done < records.size(); ++done) encoder_.add(records[done]);
  } catch (...) {  // no memory
    lost_ += records.size() - done;
  }
  write_out();
}

void Spool::end(std::uint16_t flags) noexcept {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  write_out();  // what was lost before, and whether the disk is still full
  try {
    encoder_.add_end(now_ns(), written_, flags);
  } catch (...) {
  }
  write_out();
}

std::string Spool::call_name(bool runtime, CUpti_CallbackId id) const {
  const char* name = nullptr;
  const auto domain = runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
  if (cupti_.cuptiGetCallbackName == nullptr ||
      cupti_.cuptiGetCallbackName(domain, id, &name) != CUPTI_SUCCESS || name == nullptr)
    return "";
  return plain_call_name(name);
}

void Spool::encode(std::uint8_t* buffer, std::size_t size) {
  CUpti_Activity* record = nullptr;
  CUptiResult result = CUPTI_ERROR_MAX_LIMIT_REACHED;
  while (size > 0 &&
         (result = cupti_.cuptiActivityGetNextRecord(buffer, size, &record)) == CUPTI_SUCCESS) {
    LeftOut* finer = finer_kind(*record);
    if (finer != nullptr && allowed_ >= finer->from) {
      ++finer->unreported;
      continue;
    }
    encoder_.add(*record, cupti_.version);
    if (finer != nullptr) ++finer->encoded;
  }
  if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) return;
  ++lost_;
  encoder_.add_note(std::string("the rest of a buffer cannot be read: ") + cupti_.text(result));
}

bool Spool::is_over() noexcept {
  const std::lock_guard lock(mutex_);
  return file_.is_over();
}

Spool::LeftOut* Spool::finer_kind(const CUpti_Activity& record) noexcept {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return &kernels_;
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return &calls_;
    default:
      return nullptr;
  }
}

void Spool::leave_out_what_has_no_room() noexcept {
  RecordBuffer& records = encoder_.written();
  allowed_ = room_.allowed(records.size());
  if (allowed_ != watch::Fineness::nothing || records.records() == 0) return;
  others_.unreported += records.records();
  for (LeftOut* finer : {&kernels_, &calls_}) {
    finer->unreported += finer->encoded;
    others_.unreported -= finer->encoded;
  }
  forget_what_is_not_written();
  encoder_.forget_names();
}

void Spool::forget_what_is_not_written() noexcept {
  encoder_.written().clear();
  kernels_.encoded = calls_.encoded = 0;
}

void Spool::write_out() noexcept {
  leave_out_what_has_no_room();
  // Reported where that takes little room: when it has doubled.
  std::vector<LeftOut*> reporting;
  try {
    for (LeftOut* each : {&kernels_, &calls_, &others_}) {
      if (each->unreported == 0 || (!ended_ && each->unreported < each->reported)) continue;
      reporting.push_back(each);
      encoder_.add_loss(now_ns(), each->unreported, each->flags);
    }
    if (lost_ > 0) encoder_.add_loss(now_ns(), lost_);
    if (error_ != 0) {
      char text[128];
      encoder_.add_note(std::string("records could not be written: ") +
                        strerror_r(error_, text, sizeof text));
    }
  } catch (...) {
  }
  RecordBuffer& records = encoder_.written();
  int error = ENOMEM;
  try {
    const std::vector<char>& bytes = records.bytes();
    if (bytes.empty()) return;
    error = file_.append(bytes.data(), bytes.size());
    if (error == 0) room_.wrote(bytes.size());
  } catch (...) {
  }
  if (error == 0) {
    written_ += records.records();
    lost_ = 0;
    for (LeftOut* each : reporting) each->reported += std::exchange(each->unreported, 0);
  } else {
    lost_ += records.records();
    encoder_.forget_names();
  }
  error_ = error;
  forget_what_is_not_written();
}

}  // namespace lanescope::inject
