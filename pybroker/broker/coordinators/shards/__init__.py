"""What coordinators share whose state is the log of an internal topic: one shard a partition. Knows of no groups."""
