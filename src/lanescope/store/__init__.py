"""Run folders: begun, locked, written and read back."""
