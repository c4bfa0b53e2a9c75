"""Dataclasses from JSON, TOML and Parquet, and errors that name the file and the field."""
