"""Checks before a start: owner and state of the data, and access by other users."""
