"""Metrics that clients push (KIP-714): subscriptions, accepted pushes, and their sums."""
