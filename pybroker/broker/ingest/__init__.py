"""Staged ingest: atomic bulk loads of topics (docs/staged-ingest.md)."""
