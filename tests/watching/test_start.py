"""What a watch loads before its program runs."""

import subprocess
import sys


def test_a_program_is_not_waited_for_what_only_records_need() -> None:
    code = (
        "import sys, lanescope.cli.watch, lanescope.watching.requests, lanescope.watching.sources\n"
        "print([m for m in ('numpy', 'pyarrow', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
