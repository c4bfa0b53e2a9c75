#include <cstdint>
#include <vector>

#include "bindings.hpp"
#include "compress/blocks.hpp"
#include "compress/page_copier.hpp"
#include "page_values.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::compress::PageCopier;
using lanescope::compress::PageCopy;

namespace {

using Addresses = PageNumbers<std::uint64_t>;

void copy_pages(PageCopier& self, const Addresses& sources, const Addresses& targets,
                const Addresses& sizes, bool fill_up, int ctas, std::uintptr_t stream) {
  require_as_many(sources, sizes);
  require_as_many(targets, sizes);
  const auto from = numbers_of(sources), to = numbers_of(targets), bytes = numbers_of(sizes);
  const nb::gil_scoped_release released;
  std::vector<PageCopy> pages;
  pages.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t whole = fill_up ? lanescope::compress::padded(bytes[i]) : bytes[i];
    pages.push_back({reinterpret_cast<const std::byte*>(from[i]),
                     reinterpret_cast<std::byte*>(to[i]), bytes[i],
                     static_cast<std::uint32_t>(whole - bytes[i])});
  }
  self.copy(pages, ctas, reinterpret_cast<cudaStream_t>(stream));
}

}  // namespace

void bind_pages(nb::module_& module) {
  nb::class_<PageCopier>(module, "PageCopier", "Copies pages of a GPU's memory by one kernel.")
      .def(nb::init<int>(), "gpu"_a)
      .def("copy", &copy_pages, "sources"_a, "targets"_a, "sizes"_a, "fill_up"_a, "ctas"_a,
           "stream"_a,
           nb::sig("def copy(self, sources: Annotated[NDArray[numpy.uint64], dict(shape=(None,), "
                   "writable=False)], targets: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], "
                   "dict(shape=(None,), writable=False)], fill_up: bool, ctas: int, stream: int) "
                   "-> None"),
           "Copy from addresses to addresses, behind a stream; fill_up puts zeros behind each page "
           "up to a multiple of 16 bytes.");
  module.attr("PAGE_CTAS") = lanescope::compress::kPageCtas;
  module.attr("PAGE_CTAS_TO_PEER") = lanescope::compress::kPageCtasToPeer;
}
