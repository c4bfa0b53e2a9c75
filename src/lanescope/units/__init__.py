"""Quantities and their units: what the rest of the house counts in."""
