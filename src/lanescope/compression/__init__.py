"""Lossless compression of arrays that cross a link (docs/compression.md)."""
