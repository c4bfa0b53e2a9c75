#include "bindings.hpp"

NB_MODULE(_native, module) {
  module.doc() = "The measuring core: topology, host threads, gated copies.";
  bind_errors(module);
  bind_topology(module);
  bind_host(module);
  bind_cuda(module);
  bind_testing(module);
}
