"""What can be seen of a program: one file for each source."""
