"""Share partitions (KIP-932) on partition leaders: deliver records to the members of share groups."""
