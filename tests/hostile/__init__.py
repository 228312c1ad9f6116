"""Bytes that no correct client sends, to a running broker."""
