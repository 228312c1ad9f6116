"""Staged ingest: bulk loads that are in a topic once or not at all (docs/staged-ingest.md)."""
