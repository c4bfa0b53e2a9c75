"""Runs experiments on this machine, and samples them until they are known well enough."""
