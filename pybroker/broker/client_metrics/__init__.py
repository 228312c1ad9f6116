"""Metrics that clients push (KIP-714): who is asked for which, what comes, and what is kept of it."""
