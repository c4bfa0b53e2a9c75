"""Programs whose copies of pageable memory go a faster path, unchanged."""
