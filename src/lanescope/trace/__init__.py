"""What a watched program moved: counters and copies on one clock, and what follows from them."""
