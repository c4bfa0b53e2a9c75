"""Programs at a terminal of their own."""

import os

# Makes its standard input the terminal that its signals come from, and becomes another program.
AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def drawn_on(terminal: int) -> str:
    """Return what programs draw on a terminal until all of them have left it.

    It has to be read while they draw: a terminal takes some KB, and who draws more waits.
    """
    drawn = b""
    while True:
        try:
            drawn += os.read(terminal, 4096)
        except OSError:  # all of the other end is closed
            return drawn.decode(errors="replace")
