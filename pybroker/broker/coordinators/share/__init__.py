"""Membership of share groups (KIP-932): members heartbeat, the coordinator assigns. Uses the shards of `group`."""
