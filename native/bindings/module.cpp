#include <nanobind/stl/optional.h>
#include <unistd.h>

#include "bindings.hpp"
#include "build_info.hpp"
#include "host/interruption.hpp"

namespace {

nanobind::dict build_info() {
  const lanescope::BuildInfo built = lanescope::build_info();
  nanobind::dict info;
  info["version"] = built.version;
  info["commit"] = built.commit;
  info["cuda"] = built.cuda;
  info["code"] = built.code;
  return info;
}

/// Has Python's handlers of signals run, which throw what shall end the work: KeyboardInterrupt,
/// say. They run in the main thread only; another one might wait here for whoever waits for it.
void look_for_signals() {
  if (getpid() != gettid()) return;
  const nanobind::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

}  // namespace

NB_MODULE(_native, module) {
  module.doc() = "The measuring core: topology, host threads, gated copies.";
  // An error that is kept until the interpreter ends keeps its frames, and they keep objects
  // of this module: nothing that a user should read about.
  nanobind::set_leak_warnings(false);
  module.def("build_info", &build_info, nanobind::sig("def build_info() -> dict[str, str]"),
             "What the core was built from and for: version, commit, cuda, code.");
  lanescope::look_for_interruptions(&look_for_signals);
  module.def("end_work_in", &lanescope::end_work_in, nanobind::arg("seconds").none(),
             "Have long calls of this thread fail, named 'too late', when so much time is over.");
  bind_errors(module);
  bind_topology(module);
  bind_cuda(module);
  bind_host(module);
  bind_blocks(module);
  bind_latency(module);
  bind_pieces(module);
  bind_loads(module);
  bind_allocation(module);
  bind_workload(module);
  bind_tasks(module);
  bind_grid(module);
  bind_watch(module);
  bind_records(module);
  bind_compress(module);
  bind_device_compress(module);
  bind_device_array(module);
  bind_nvcomp(module);
  bind_nccl(module);
  bind_channel(module);
  bind_pages(module);
  bind_tensor_table(module);
  bind_peer(module);
  bind_parts(module);
  bind_rule(module);
  bind_probe(module);
  bind_testing(module);
}
