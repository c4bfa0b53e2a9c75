"""Parameters fitted to results."""
