"""Staged ingest: exactly once by topic id, whichever process dies (docs/staged-ingest.md)."""
