"""Reports as values: what a verb says, before anything draws or prints it."""
