"""Groups of all kinds: their interface, the registry of a shard, and the manager of groups with epochs.

This package does not depend on what one kind of groups does.
"""
