"""The cluster id (KIP-78)."""
