"""Helpers for tests that use a whole broker: downloads, programs in other languages, brokers to test against."""
