"""Findings: rules over results and over traces, a file for each cause, and advice."""
