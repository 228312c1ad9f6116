"""Offline commands, on files made by hand."""
