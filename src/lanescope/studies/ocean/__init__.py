"""Kernels of an ocean model: equations, a NumPy reference, realistic grids, published values."""
