"""What the same hardware carried before: an index over stored runs, and what changed when."""
