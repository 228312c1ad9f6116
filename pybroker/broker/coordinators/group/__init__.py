"""The group coordinator: classic groups, their rebalances and their committed offsets."""
