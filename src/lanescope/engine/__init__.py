"""Backends: what runs experiments, on this machine or on paper."""
