// libgcc's unwinder, which is linked in statically, looks objects up by a function that the C
// library has from 2.35 on. This one does the same on older ones, too, and is not seen outside of
// this library.

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace {

/// `struct dl_find_object` of <dlfcn.h>, where that is new enough.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  link_map* object;
  void* exception_frames;
  unsigned long long reserved[7];
};

struct Search {
  std::uintptr_t address;
  FoundObject* found;
};

/// Whether the address lies in this object; then says where its table of exception frames is.
int look_into(dl_phdr_info* info, std::size_t, void* argument) {
  const Search& search = *static_cast<Search*>(argument);
  void* frames = nullptr;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) frames = reinterpret_cast<void*>(begin);
    if (header.p_type != PT_LOAD || search.address - begin >= header.p_memsz) continue;
    inside = true;
    search.found->map_start = reinterpret_cast<void*>(begin);
    search.found->map_end = reinterpret_cast<void*>(begin + header.p_memsz);
  }
  if (!inside) return 0;
  search.found->exception_frames = frames;
  return frames != nullptr ? 1 : -1;
}

}  // namespace

// Newer headers declare it, with their own types: so it has another name here.
extern "C" int find_object(void* address, FoundObject* found) __asm__("_dl_find_object");

extern "C" int find_object(void* address, FoundObject* found) {
  Search search{reinterpret_cast<std::uintptr_t>(address), found};
  return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
