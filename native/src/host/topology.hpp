#pragma once

#include <hwloc.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace lanescope {

/// This machine's topology: one move-only owner of an hwloc handle.
class Topology {
 public:
  /// Reads the topology, PCI devices and bridges included, and only the CPUs that the
  /// calling thread may run on. Throws `Error`.
  Topology();
  ~Topology();
  Topology(Topology&& other) noexcept;
  Topology& operator=(Topology&&) = delete;

  /// The whole topology as hwloc XML.
  std::string xml() const;

  /// Binds the calling thread to CPUs, by the operating system's numbers; an
  /// empty list leaves it alone. Throws `Error` when the system refuses.
  void bind_this_thread(const std::vector<int>& cpus) const;

  /// Asks for the pages of [data, data + bytes) on one NUMA node. Must come
  /// before the first touch. False where this process may not bind memory, as in many
  /// containers; throws `Error` when the system refuses for another reason.
  bool bind_memory(void* data, std::size_t bytes, int node) const;

  /// CPUs next to a NUMA node that this process may use, by the system's numbers.
  std::vector<int> cpus_of_node(int node) const;

  /// How many NUMA nodes there are.
  int node_count() const;

 private:
  friend class ScopedMemoryPolicy;

  hwloc_topology_t handle_ = nullptr;
};

/// Lets the calling thread's new pages come from one NUMA node for a scope, as long as
/// that node has free ones, and restores the policy that it had before, whatever it was.
/// With a single node it does nothing. Throws `Error` when the system refuses.
class ScopedMemoryPolicy {
 public:
  ScopedMemoryPolicy(const Topology& topology, int node);
  ~ScopedMemoryPolicy();
  ScopedMemoryPolicy(const ScopedMemoryPolicy&) = delete;
  ScopedMemoryPolicy& operator=(const ScopedMemoryPolicy&) = delete;

 private:
  /// What the kernel calls a policy: how, with flags, and a bit for each node. hwloc's own
  /// words for policies are fewer: one read by them would come back as another one.
  struct Policy {
    int mode = 0;
    std::array<unsigned long, 1024 / (8 * sizeof(unsigned long))> nodes{};
  };
  std::optional<Policy> before_;
};

/// Binds the calling thread for a scope and restores its CPUs afterwards.
class ScopedBinding {
 public:
  ScopedBinding(const Topology& topology, const std::vector<int>& cpus);
  ~ScopedBinding();
  ScopedBinding(const ScopedBinding&) = delete;
  ScopedBinding& operator=(const ScopedBinding&) = delete;

 private:
  const Topology& topology_;
  std::vector<int> before_;
};

}  // namespace lanescope
