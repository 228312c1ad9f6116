"""Compares topic ids with topic names."""
