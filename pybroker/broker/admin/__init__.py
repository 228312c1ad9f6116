"""Semantics of administrative requests, independent of protocol versions."""
