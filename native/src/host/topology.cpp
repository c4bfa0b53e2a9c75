#include "host/topology.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "error.hpp"

namespace lanescope {

namespace {

struct BitmapFree {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapFree>;

Bitmap bitmap_of(const std::vector<int>& indices) {
  Bitmap set(hwloc_bitmap_alloc());
  for (const int index : indices) hwloc_bitmap_set(set.get(), static_cast<unsigned>(index));
  return set;
}

std::vector<int> cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

/// Containers often filter the calls that bind memory, which looks like either of these.
bool binding_is_forbidden() {
  return errno == EPERM || errno == ENOSYS;
}

[[noreturn]] void refuse(const char* call) {
  if (!binding_is_forbidden()) throw_errno(call);
  throw Error(call, errno, "binding forbidden", "this process may not bind memory");
}

}  // namespace

Topology::Topology() {
  if (hwloc_topology_init(&handle_) != 0) throw_errno("hwloc_topology_init");
  hwloc_topology_set_io_types_filter(handle_, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // Whoever started this process with a part of the CPUs wants no other ones used.
  hwloc_topology_set_flags(
      handle_, HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING | HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM);
  if (hwloc_topology_load(handle_) != 0) {
    hwloc_topology_destroy(handle_);
    throw_errno("hwloc_topology_load");
  }
}

Topology::~Topology() {
  if (handle_ != nullptr) hwloc_topology_destroy(handle_);
}

Topology::Topology(Topology&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

std::string Topology::xml() const {
  char* buffer = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(handle_, &buffer, &length, 0) != 0)
    throw_errno("hwloc_topology_export_xmlbuffer");
  std::string text(buffer, static_cast<std::size_t>(length) - 1);  // without its final zero
  hwloc_free_xmlbuffer(handle_, buffer);
  return text;
}

void Topology::bind_this_thread(const std::vector<int>& cpus) const {
  if (cpus.empty()) return;
  const Bitmap set = bitmap_of(cpus);
  if (hwloc_set_cpubind(handle_, set.get(), HWLOC_CPUBIND_THREAD) != 0)
    throw_errno("hwloc_set_cpubind");
}

int Topology::node_count() const {
  return hwloc_get_nbobjs_by_type(handle_, HWLOC_OBJ_NUMANODE);
}

bool Topology::bind_memory(void* data, std::size_t bytes, int node) const {
  // A single node needs no binding.
  if (node_count() < 2) return true;
  const Bitmap set = bitmap_of({node});
  if (hwloc_set_area_membind(handle_, data, bytes, set.get(), HWLOC_MEMBIND_BIND,
                             HWLOC_MEMBIND_BYNODESET) == 0)
    return true;
  if (binding_is_forbidden()) return false;
  throw_errno("hwloc_set_area_membind");
}

std::vector<int> Topology::cpus_of_node(int node) const {
  std::vector<int> cpus;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(handle_, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    if (object->os_index != static_cast<unsigned>(node)) continue;
    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(object->cpuset, cpu))
      cpus.push_back(cpu);
  }
  return cpus;
}

ScopedMemoryPolicy::ScopedMemoryPolicy(const Topology& topology, int node) {
  if (topology.node_count() < 2) return;
  Policy before;
  // By their numbers: the functions for these two calls are libnuma's.
  if (syscall(SYS_get_mempolicy, &before.mode, before.nodes.data(), 8 * sizeof before.nodes,
              nullptr, 0) != 0)
    refuse("get_mempolicy");
  const Bitmap set = bitmap_of({node});
  if (hwloc_set_membind(topology.handle_, set.get(), HWLOC_MEMBIND_BIND,
                        HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) != 0)
    refuse("hwloc_set_membind");
  before_ = before;
}

ScopedMemoryPolicy::~ScopedMemoryPolicy() {
  if (before_)
    syscall(SYS_set_mempolicy, before_->mode, before_->nodes.data(), 8 * sizeof before_->nodes);
}

ScopedBinding::ScopedBinding(const Topology& topology, const std::vector<int>& cpus)
    : topology_(topology) {
  if (cpus.empty()) return;
  before_ = cpus_of_this_thread();
  topology_.bind_this_thread(cpus);
}

ScopedBinding::~ScopedBinding() {
  try {
    topology_.bind_this_thread(before_);
  } catch (const Error&) {
    // The CPUs went offline meanwhile; the thread stays where it is.
  }
}

}  // namespace lanescope
