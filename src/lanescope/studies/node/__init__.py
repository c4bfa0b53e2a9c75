"""``lanescope node``: whether this node may run jobs, and which part is broken if not."""
