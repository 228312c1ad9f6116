"""Storage of share state (KIP-932): shards of `__share_group_state`, and clients of their coordinators."""
