"""Staged ingest: records are written exactly once by topic id, whichever process dies (docs/staged-ingest.md)."""
