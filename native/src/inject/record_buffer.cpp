#include "inject/record_buffer.hpp"

namespace lanescope::inject {

namespace {

constexpr std::size_t kLongestText = 64 << 10;  // bytes

}  // namespace

void RecordBuffer::add_text(RecordKind kind, std::uint32_t id, std::string_view text) {
  text = text.substr(0, kLongestText);
  const std::size_t padded = (text.size() + 7) / 8 * 8;
  const Text head{{kind, 0, static_cast<std::uint32_t>(sizeof(Text) + padded)},
                  id,
                  static_cast<std::uint32_t>(text.size())};
  append(first_, &head, sizeof head);
  append(first_, text.data(), text.size());
  first_.resize(first_.size() + padded - text.size());
}

const std::vector<char>& RecordBuffer::bytes() {
  for (std::vector<char>* part : {&operations_, &calls_, &edges_, &managed_, &host_copies_})
    append(first_, part->data(), part->size());
  return first_;
}

std::uint64_t RecordBuffer::size() const noexcept {
  return first_.size() + operations_.size() + calls_.size() + edges_.size() + managed_.size() +
         host_copies_.size();
}

std::uint64_t RecordBuffer::records() const noexcept {
  return operations_.size() / sizeof(Operation) + calls_.size() / sizeof(Call) +
         edges_.size() / sizeof(RangeEdge) + managed_.size() / sizeof(Managed) +
         host_copies_.size() / sizeof(HostCopy);
}

void RecordBuffer::clear() noexcept {
  first_.clear();
  operations_.clear();
  calls_.clear();
  edges_.clear();
  managed_.clear();
  host_copies_.clear();
}

void RecordBuffer::append(std::vector<char>& to, const void* bytes, std::size_t size) {
  const auto* begin = static_cast<const char*>(bytes);
  to.insert(to.end(), begin, begin + size);
}

}  // namespace lanescope::inject
