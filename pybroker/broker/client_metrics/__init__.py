"""Metrics that clients push (KIP-714): subscriptions, accepted pushes, and the metrics that remain of them."""
