#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "compress/blocks.hpp"
#include "compress/page_copier.hpp"
#include "page_values.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::compress::padded;
using lanescope::compress::PageCopier;
using lanescope::compress::PageCopy;

namespace {

using Addresses = PageNumbers<std::uint64_t>;

/// Copies pages, each as `page_of` says by its number.
template <typename PageOf>
void copy_by(PageCopier& self, std::size_t count, int ctas, std::uintptr_t stream, PageOf page_of) {
  const nb::gil_scoped_release released;
  std::vector<PageCopy> pages;
  pages.reserve(count);
  for (std::size_t i = 0; i < count; ++i) pages.push_back(page_of(i));
  self.copy(pages, ctas, reinterpret_cast<cudaStream_t>(stream));
}

const std::byte* source_at(std::uint64_t address) {
  return reinterpret_cast<const std::byte*>(address);
}

std::byte* target_at(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

void copy_pages(PageCopier& self, const Addresses& sources, const Addresses& targets,
                const Addresses& sizes, int ctas, std::uintptr_t stream) {
  require_as_many(sources, sizes);
  require_as_many(targets, sizes);
  const auto from = numbers_of(sources), to = numbers_of(targets), bytes = numbers_of(sizes);
  copy_by(self, bytes.size(), ctas, stream, [&](std::size_t i) {
    return PageCopy{source_at(from[i]), target_at(to[i]), bytes[i], 0};
  });
}

void gather_pages(PageCopier& self, const Addresses& sources, const Addresses& sizes,
                  std::uintptr_t room, int ctas, std::uintptr_t stream) {
  require_as_many(sources, sizes);
  const auto from = numbers_of(sources), bytes = numbers_of(sizes);
  copy_by(self, bytes.size(), ctas, stream, [&, to = room](std::size_t i) mutable {
    const std::size_t whole = padded(bytes[i]);
    const auto gap = static_cast<std::uint32_t>(whole - bytes[i]);
    return PageCopy{source_at(from[i]), target_at(std::exchange(to, to + whole)), bytes[i], gap};
  });
}

void scatter_pages(PageCopier& self, std::uintptr_t room, const Addresses& targets,
                   const Addresses& sizes, int ctas, std::uintptr_t stream) {
  require_as_many(targets, sizes);
  const auto to = numbers_of(targets), bytes = numbers_of(sizes);
  copy_by(self, bytes.size(), ctas, stream, [&, from = room](std::size_t i) mutable {
    const std::uint64_t begin = std::exchange(from, from + padded(bytes[i]));
    return PageCopy{source_at(begin), target_at(to[i]), bytes[i], 0};
  });
}

bool share_bytes(const Addresses& begins, const Addresses& sizes) {
  require_as_many(begins, sizes);
  const auto from = numbers_of(begins), bytes = numbers_of(sizes);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pages(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) pages[i] = {from[i], from[i] + bytes[i]};
  std::sort(pages.begin(), pages.end());
  std::uint64_t end = 0;
  for (const auto& page : pages) {
    if (page.first < end) return true;
    end = std::max(end, page.second);
  }
  return false;
}

}  // namespace

void bind_pages(nb::module_& module) {
  nb::class_<PageCopier>(module, "PageCopier", "Copies pages of a GPU's memory by one kernel.")
      .def(nb::init<int>(), "gpu"_a)
      .def("copy", &copy_pages, "sources"_a, "targets"_a, "sizes"_a, "ctas"_a, "stream"_a,
           nb::sig("def copy(self, sources: Annotated[NDArray[numpy.uint64], dict(shape=(None,), "
                   "writable=False)], targets: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], ctas: int, stream: int) -> None"),
           "Copy from addresses to addresses, behind a stream.")
      .def("gather", &gather_pages, "sources"_a, "sizes"_a, "room"_a, "ctas"_a, "stream"_a,
           nb::sig("def gather(self, sources: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], room: int, ctas: int, stream: int) "
                   "-> None"),
           "Copy pages side by side to an address, each with zeros behind it up to a multiple of "
           "16 bytes.")
      .def("scatter", &scatter_pages, "room"_a, "targets"_a, "sizes"_a, "ctas"_a, "stream"_a,
           nb::sig("def scatter(self, room: int, targets: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], ctas: int, stream: int) -> None"),
           "Copy pages that lie side by side so to their addresses.");
  module.def("share_bytes", &share_bytes, "begins"_a, "sizes"_a,
             nb::sig("def share_bytes(begins: Annotated[NDArray[numpy.uint64], "
                     "dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64],"
                     " dict(shape=(None,), writable=False)]) -> bool"),
             "Whether two of some pages have bytes in common.");
  module.attr("PAGE_CTAS") = lanescope::compress::kPageCtas;
}
