"""Programs at a terminal of their own."""

import os

# Makes its standard input the terminal that its signals come from, and becomes another program.
AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""

# Makes it that terminal, too, and runs another program in front of it, a job of its own as in a
# shell; ends as that does.
JOB_AT_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
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
