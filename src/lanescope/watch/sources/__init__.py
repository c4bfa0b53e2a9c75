"""What watches: each source appends to the spool of a run what it sees."""
