"""Lines of code that stand with findings and advice, in the language of the program."""

from lanescope.findings.code.snippets import (
    CUDA,
    CUPY,
    JAX,
    LANGUAGES,
    NUMBA,
    PYTORCH,
    SHELL,
    SNIPPETS,
    WITHOUT,
    kernels_of,
    language_of,
    languages,
    snippets,
)

__all__ = [
    "CUDA",
    "CUPY",
    "JAX",
    "LANGUAGES",
    "NUMBA",
    "PYTORCH",
    "SHELL",
    "SNIPPETS",
    "WITHOUT",
    "kernels_of",
    "language_of",
    "languages",
    "snippets",
]
