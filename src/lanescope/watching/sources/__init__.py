"""What records a program: counters and traces, one file for each source."""
