"""What every run of copies comes to: outcome, document, export, comparison."""
