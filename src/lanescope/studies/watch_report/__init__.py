"""The report of a watch."""
