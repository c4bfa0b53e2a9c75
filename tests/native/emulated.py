"""Runs programs that do on the host what a group of a GPU's warps does."""

import subprocess

from tests.native.programs import program


def emulated(name):
    """A function that runs a program of native/tests: words, and bytes in; bytes out."""
    path = program(name)

    def run(*words, data):
        done = subprocess.run([path, *map(str, words)], input=data, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return done.stdout

    return run
