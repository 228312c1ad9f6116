"""Staged ingest: exactly once by topic id, whatever dies (docs/staged-ingest.md)."""
