"""Where share groups' state of partitions is kept (KIP-932): shards of `__share_group_state`, and who asks them."""
