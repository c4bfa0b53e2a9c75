"""What a copy between a host and its GPU takes: parameters, their files, their fit."""
