"""What a watched program does again and again, and what changes of it would gain."""
