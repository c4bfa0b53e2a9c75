"""Chapters 4 and 5 and the outlook of Qi's thesis on this machine: what ran, and what it tells.

Qi, Analysis of data movements over the PCIe bus, 2022.
"""
