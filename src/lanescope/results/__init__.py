"""From samples to results: statistics, verdicts, and which copies overlapped."""
