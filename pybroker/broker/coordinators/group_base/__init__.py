"""Groups of all kinds: their interface, the registry of one shard's groups, and the manager of groups with epochs.

This package contains no behaviour that only one kind of group has.
"""
