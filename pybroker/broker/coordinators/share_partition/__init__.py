"""Share partitions (KIP-932), on the leaders of partitions: which records of a share group are given to whom."""
