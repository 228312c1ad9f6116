"""Bytes that no honest client sends, against a live broker."""
