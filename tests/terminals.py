"""Programs at a terminal of their own."""

# Makes its standard input the terminal that its signals come from, and becomes another program.
AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
