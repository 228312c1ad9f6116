"""Membership of share groups (KIP-932): members heartbeat, the coordinator assigns. Stands on the shards of `group`."""
