"""Storage of share states (KIP-932): the share coordinator's shards of `__share_group_state`, and its clients."""
