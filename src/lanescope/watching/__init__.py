"""Watching a program: sources of counters and traces, the session, and the live view."""
