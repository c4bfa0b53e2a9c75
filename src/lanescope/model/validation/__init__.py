"""Kernels of the grid measured by every method, and how far predictions are from that."""
