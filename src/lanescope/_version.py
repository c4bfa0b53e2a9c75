"""The package's version, and what it was built from and for."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("lanescope")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"


def version_text() -> str:
    """Version, commit, CUDA version and the GPUs that there is code for, in one line."""
    from lanescope.errors import LanescopeError

    try:
        from lanescope._core import native
    except LanescopeError as error:
        return f"lanescope {__version__} ({error})"
    built = native.build_info()
    commit = f"commit {built['commit']}" if built["commit"] else "commit not known"
    return f"lanescope {__version__} ({commit}, CUDA {built['cuda']}, code for {built['code']})"
