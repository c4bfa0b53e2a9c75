"""What a watched program moved, when: counters and copies on one clock, stored and in numbers."""
