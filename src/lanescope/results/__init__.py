"""From samples to results: sampling, statistics, verdicts."""
