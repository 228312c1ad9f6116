"""Share partitions (KIP-932). The leader of a partition delivers its records to the members of share groups."""
