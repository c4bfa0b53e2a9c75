"""Runs: kept, read back, exported."""
