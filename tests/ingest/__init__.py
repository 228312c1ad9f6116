"""Staged ingest: exactly once by topic id, whatever dies (R16, docs/staged-ingest.md)."""
