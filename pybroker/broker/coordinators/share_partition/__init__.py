"""Share partitions (KIP-932) on partition leaders: hand out records of a share group to its members."""
