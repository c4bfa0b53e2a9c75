"""Small GPU programs to watch: ``python -m lanescope.examples --help``."""
