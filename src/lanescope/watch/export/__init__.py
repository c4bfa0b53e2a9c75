"""Watches in the formats of other tools."""
