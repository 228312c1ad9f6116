"""Membership of share groups (KIP-932): members send heartbeats, and the coordinator assigns partitions."""
