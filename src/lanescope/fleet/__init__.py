"""Many nodes: each checks itself, and what differs from the others is found."""
