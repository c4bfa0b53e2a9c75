"""Studies: a file each, with its options, what it measures, what it concludes and its report."""
