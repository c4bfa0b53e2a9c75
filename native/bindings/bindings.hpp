#pragma once

#include <nanobind/nanobind.h>

// One function for each topic; module.cpp calls them all.
void bind_errors(nanobind::module_& module);
void bind_topology(nanobind::module_& module);
void bind_host(nanobind::module_& module);
void bind_blocks(nanobind::module_& module);
void bind_cuda(nanobind::module_& module);
void bind_latency(nanobind::module_& module);
void bind_pieces(nanobind::module_& module);
void bind_loads(nanobind::module_& module);
void bind_allocation(nanobind::module_& module);
void bind_workload(nanobind::module_& module);
void bind_tasks(nanobind::module_& module);
void bind_grid(nanobind::module_& module);
void bind_watch(nanobind::module_& module);
void bind_records(nanobind::module_& module);
void bind_channel(nanobind::module_& module);
void bind_pages(nanobind::module_& module);
void bind_tensor_table(nanobind::module_& module);
void bind_peer(nanobind::module_& module);   // after bind_channel and bind_compress
void bind_parts(nanobind::module_& module);  // after bind_compress
void bind_rule(nanobind::module_& module);   // after bind_compress
void bind_compress(nanobind::module_& module);
void bind_device_compress(nanobind::module_& module);  // after bind_compress
void bind_device_array(nanobind::module_& module);     // after bind_device_compress
void bind_nccl(nanobind::module_& module);
void bind_nvcomp(nanobind::module_& module);  // after bind_device_array
void bind_probe(nanobind::module_& module);
void bind_testing(nanobind::module_& module);
void bind_piece_testing(nanobind::module_& testing);  // called by bind_testing
void bind_scope_testing(nanobind::module_& testing);
void bind_grid_testing(nanobind::module_& testing);
void bind_channel_testing(nanobind::module_& testing);
void bind_watch_testing(nanobind::module_& testing);
void bind_probe_testing(nanobind::module_& testing);
